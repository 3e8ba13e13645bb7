package proxies

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// connect returns lnetd's end of a connection with this process.
func connect(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixpacket"}
	l, err := net.ListenUnix("unixpacket", at)
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.DialUnix("unixpacket", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(client.Close(), server.Close(), l.Close()) })
	return server
}

// The first rule that applies to a process decides whether it may serve a net.
func TestRules(t *testing.T) {
	conn := connect(t)
	me, mine := uint32(os.Getuid()), uint32(os.Getgid())
	one, two := lnet.MakeNet(210, 1), lnet.MakeNet(210, 2)
	for _, c := range []struct {
		what  string
		rules Rules
		terms uplnd.Terms
		err   error
	}{
		{"no rules", nil, uplnd.Terms{Rule: "default"}, nil},
		{"a user", Rules{{Name: "u", UIDs: []uint32{me}, AreaSize: 8 << 20, Proxies: 3}}, uplnd.Terms{Rule: "u", AreaSize: 8 << 20, MaxProxies: 3}, nil},
		{"a group", Rules{{Name: "g", GIDs: []uint32{mine}}}, uplnd.Terms{Rule: "g"}, nil},
		{"everybody", Rules{{Name: "x", UIDs: []uint32{me + 1}}, {Name: "all"}}, uplnd.Terms{Rule: "all"}, nil},
		{"nobody", Rules{{Name: "x", UIDs: []uint32{me + 1}, GIDs: []uint32{mine + 1_000_000}}}, uplnd.Terms{}, syscall.EACCES},
		{"its net", Rules{{Name: "n", Nets: []lnet.Net{two, one}}}, uplnd.Terms{Rule: "n"}, nil},
		{"another net", Rules{{Name: "n", Nets: []lnet.Net{two}}, {Name: "all"}}, uplnd.Terms{}, syscall.EACCES},
	} {
		for k := range c.rules {
			if err := c.rules[k].Check(); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		terms, err := c.rules.Admit(conn, &uplnd.Proxy{Net: one})
		if terms != c.terms || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", c.what, terms, err)
		}
	}
	if err := (&Rule{AreaSize: 3 << 20}).Check(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an area of 3 MiB: %v", err)
	}
}
