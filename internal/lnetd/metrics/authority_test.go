package metrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Valid certificates are valid from longAgo, which is before the start time of a synctest bubble,
// until longOn.
var (
	longAgo = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	longOn  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	// over is the end of expired certificates.
	over = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{}
	der, key := a.sign(t, name, longOn)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

// sign creates a certificate for 127.0.0.1. The first one is that of the authority itself.
func (a *authority) sign(t *testing.T, name string, until time.Time) (der []byte, _ *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: longAgo, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.cert == nil,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, by := c, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// pool contains only the authority.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// pair returns a certificate with its key, for a client or a server.
func (a *authority) pair(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	der, key := a.sign(t, name, until)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write writes NAME.crt and NAME.key.
func (a *authority) write(t *testing.T, dir, name string, until time.Time) {
	t.Helper()
	der, key := a.sign(t, name, until)
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, name+".crt", pemOf("CERTIFICATE", der))
	writeFile(t, dir, name+".key", pemOf("PRIVATE KEY", b))
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// writeFile replaces a file atomically, like programs that renew certificates.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}
