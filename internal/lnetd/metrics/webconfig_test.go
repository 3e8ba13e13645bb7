package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// secretHash is "secret", hashed at the lowest cost.
const secretHash = "$2a$04$6PZ9jJIjqomm9fpzuo4bVeu/k.9dUsgA4u3EgXlENgM1DC4AGCCiS"

const (
	onlyTLS   = "tls_server_config: {cert_file: own.crt, key_file: own.key}\n"
	mutualTLS = "tls_server_config: {cert_file: own.crt, key_file: own.key, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}\n"
	passwords = "basic_auth_users: {scraper: " + secretHash + "}\n"
)

// site returns a directory with an authority's certificates: own.crt, and the authority's own
// ca.crt.
func site(t *testing.T) (dir string, ca *authority) {
	t.Helper()
	dir, ca = t.TempDir(), newAuthority(t, "ca")
	ca.write(t, dir, "own", longOn)
	ca.write(t, dir, "old", over)
	writeFile(t, dir, "ca.crt", pemOf("CERTIFICATE", ca.cert.Raw))
	writeFile(t, dir, "none.crt", "nothing\n")
	return dir, ca
}

// Errors in a web-config.yml are reported with their path. Unwise settings are warnings.
func TestCheckWebConfig(t *testing.T) {
	dir, _ := site(t)
	for _, c := range []struct {
		name, text, wrong string
		warnings          []string
	}{
		{"empty", "", "", nil},
		{"all", mutualTLS + passwords, "", nil},
		{"not YAML", "a: [", "did not find expected node content", nil},
		{"unknown key", "tls_config: {}\n", "field tls_config not found", nil},
		{"no key", "tls_server_config: {cert_file: own.crt}\n", "missing one of key or key_file", nil},
		{"no such file", "tls_server_config: {cert_file: x.crt, key_file: own.key}\n", filepath.Join(dir, "x.crt") + ": no such file", nil},
		{"key of another", "tls_server_config: {cert_file: own.crt, key_file: old.key}\n", "private key does not match public key", nil},
		{"no certificate", "tls_server_config: {cert_file: none.crt, key_file: own.key}\n", "failed to find any PEM data", nil},
		{"no authority", strings.Replace(mutualTLS, "ca.crt", "none.crt", 1), "every client would be refused", nil},
		{"authority for nothing", "tls_server_config: {cert_file: own.crt, key_file: own.key, client_ca_file: ca.crt}\n", "without a Client Auth Policy", nil},
		{"unknown policy", strings.Replace(mutualTLS, "RequireAndVerifyClientCert", "Maybe", 1), "invalid ClientAuth: Maybe", nil},
		{"plain password", onlyTLS + "basic_auth_users: {scraper: secret}\n", "passwords must be bcrypt hashes", nil},
		{
			"expired", "tls_server_config: {cert_file: old.crt, key_file: old.key}\n", "",
			[]string{"the certificate of CN=old has expired on 1999-01-01 00:00:00"},
		},
		{"in the clear", passwords, "", []string{"passwords are sent unencrypted, because the file has no tls_server_config"}},
	} {
		path := writeFile(t, dir, "web.yml", c.text)
		warnings, err := CheckWebConfig(path, over.AddDate(20, 0, 0))
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.wrong != "" && (err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %v, want %s", c.name, err, c.wrong)
		}
		if diff := cmp.Diff(c.warnings, warnings); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if _, err := CheckWebConfig(filepath.Join(dir, "absent.yml"), over); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("absent: %v", err)
	}
	path := writeFile(t, dir, "web.yml", onlyTLS)
	if warnings, err := CheckWebConfig(path, longAgo.AddDate(-1, 0, 0)); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "is not valid before") {
		t.Errorf("of the future: %q, %v", warnings, err)
	}
}

// guarded serves a handler with a web-config.yml on a port, until the test ends.
func guarded(t *testing.T, webConfig string, h http.Handler, log io.Writer) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h, webConfig, slog.New(slog.NewTextHandler(log, nil))) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })

// askOnce sends a request over a new connection, and returns the status, or 0 if there is no
// answer.
func askOnce(t *testing.T, url, user, password string, c *tls.Config) (status int, name string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: c, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return 0, ""
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if resp.TLS != nil {
		name = resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	return resp.StatusCode, name
}

// Given TLS with client certificates and passwords, only clients that have both get an answer.
func TestWhoIsLetIn(t *testing.T) {
	dir, ca := site(t)
	addr := guarded(t, writeFile(t, dir, "web.yml", mutualTLS+passwords), ok, io.Discard)
	with := func(certs ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: ca.pool(), Certificates: certs}
	}
	own, others := ca.pair(t, "client", longOn), newAuthority(t, "other").pair(t, "client", longOn)
	// Otherwise a client would not send a certificate that the server does not accept.
	stubborn := with()
	stubborn.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &others, nil }
	for _, c := range []struct {
		name, scheme, user, password string
		tls                          *tls.Config
		want                         int
	}{
		{"both", "https", "scraper", "secret", with(own), http.StatusOK},
		{"no password", "https", "", "", with(own), http.StatusUnauthorized},
		{"another password", "https", "scraper", "Secret", with(own), http.StatusUnauthorized},
		{"another user", "https", "root", "secret", with(own), http.StatusUnauthorized},
		{"no certificate", "https", "scraper", "secret", with(), 0},
		{"another authority's certificate", "https", "scraper", "secret", stubborn, 0},
		{"an expired certificate", "https", "scraper", "secret", with(ca.pair(t, "client", over)), 0},
		{"an authority that the client does not know", "https", "scraper", "secret", &tls.Config{RootCAs: newAuthority(t, "x").pool(), Certificates: []tls.Certificate{own}}, 0},
		{"TLS 1.1", "https", "scraper", "secret", &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{own}, MaxVersion: tls.VersionTLS11}, 0}, //nolint:gosec // it is refused
		{"no TLS", "http", "scraper", "secret", nil, http.StatusBadRequest},
	} {
		if status, _ := askOnce(t, c.scheme+"://"+addr+"/metrics", c.user, c.password, c.tls); status != c.want {
			t.Errorf("%s: status %d, want %d", c.name, status, c.want)
		}
	}
}

// Passwords work without TLS too.
func TestPasswordsWithoutTLS(t *testing.T) {
	addr := guarded(t, writeFile(t, t.TempDir(), "web.yml", passwords), ok, io.Discard)
	for password, want := range map[string]int{"secret": http.StatusOK, "": http.StatusUnauthorized} {
		if status, _ := askOnce(t, "http://"+addr, "scraper", password, nil); status != want {
			t.Errorf("%q: status %d, want %d", password, status, want)
		}
	}
}

// Given a running server, when its certificate or its passwords are replaced, then the new ones
// apply to the next connection. While the file has errors no client is served.
func TestFilesAreReadAnew(t *testing.T) {
	dir, ca := site(t)
	path := writeFile(t, dir, "web.yml", onlyTLS)
	addr := guarded(t, path, ok, io.Discard)
	check := func(what, password string, status int, name string) {
		t.Helper()
		gotStatus, gotName := askOnce(t, "https://"+addr, "scraper", password, &tls.Config{RootCAs: ca.pool()})
		if gotStatus != status || gotName != name {
			t.Errorf("%s: status %d from %q, want %d from %q", what, gotStatus, gotName, status, name)
		}
	}
	check("at first", "", http.StatusOK, "own")
	ca.write(t, dir, "next", longOn)
	writeFile(t, dir, "web.yml", strings.ReplaceAll(onlyTLS, "own", "next")+passwords)
	check("with a password", "secret", http.StatusOK, "next")
	check("without it", "", http.StatusUnauthorized, "next")
	writeFile(t, dir, "web.yml", "a: [")
	check("with errors", "secret", 0, "")
	writeFile(t, dir, "web.yml", onlyTLS)
	check("at last", "", http.StatusOK, "own")
}

// Without TLS a file with errors makes the server refuse all clients, without a flood of log lines.
func TestErrorsAreLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "web.yml", passwords)
	var log daemontest.Log
	addr := guarded(t, path, ok, &log)
	askOnce(t, "http://"+addr, "scraper", "secret", nil)
	writeFile(t, dir, "web.yml", "a: [")
	for range 20 {
		if status, _ := askOnce(t, "http://"+addr, "scraper", "secret", nil); status != http.StatusInternalServerError {
			t.Fatalf("status %d", status)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "Unable to parse configuration") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// With TLS it does so too, and logs the reason. Errors of clients are not logged.
func TestErrorsOfTLSAreLoggedOnce(t *testing.T) {
	dir, ca := site(t)
	path := writeFile(t, dir, "web.yml", onlyTLS)
	var log daemontest.Log
	addr := guarded(t, path, ok, &log)
	ask := func() {
		t.Helper()
		if status, _ := askOnce(t, "https://"+addr, "", "", &tls.Config{RootCAs: ca.pool()}); status != 0 {
			t.Fatalf("status %d", status)
		}
	}
	if status, _ := askOnce(t, "https://"+addr, "", "", &tls.Config{RootCAs: x509.NewCertPool()}); status != 0 {
		t.Fatalf("status %d", status)
	}
	writeFile(t, dir, "own.key", "renewed, but not all of it")
	for range 20 {
		ask()
	}
	daemontest.Within(t, 20*time.Second, "a line", func() error {
		if log.String() == "" {
			return errors.New("there is none")
		}
		return nil
	})
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "until the web_config file is corrected") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// The number of simultaneous password checks equals that of simultaneous answers, because a check
// needs a processor.
func TestPasswordsAreLookedAtInTurn(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	h := &bounded{next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	})}
	addr := guarded(t, writeFile(t, t.TempDir(), "web.yml", passwords), h, io.Discard)
	var all sync.WaitGroup
	for range scrapesPerAddress {
		all.Go(func() { askOnce(t, "http://"+addr, "scraper", "secret", nil) })
		<-began
	}
	if status, _ := askOnce(t, "http://"+addr, "scraper", "wrong", nil); status != http.StatusTooManyRequests {
		t.Errorf("status %d", status)
	}
	if n := h.scrapes.refused.Load(); n != 1 {
		t.Errorf("%d are counted as refused, want 1", n)
	}
	close(end)
	all.Wait()
}

// If a web-config.yml cannot be used, Serve returns an error.
func TestServeNeedsTheWebConfig(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), l, ok, filepath.Join(t.TempDir(), "absent.yml"), nil); err == nil || !strings.Contains(err.Error(), "absent.yml") {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener is open")
	}
}

// The example on the page about monitoring works unchanged, except for the hash.
func TestWebConfigOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```yaml\ntls_server_config:")
	text, _, _ = strings.Cut(text, "```")
	if !found || !strings.Contains(text, "$2y$10$...") {
		t.Fatal("the page has no example")
	}
	dir, _ := site(t)
	path := writeFile(t, dir, "web.yml", "tls_server_config:"+strings.ReplaceAll(text, "$2y$10$...", secretHash))
	if warnings, err := CheckWebConfig(path, over); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}
