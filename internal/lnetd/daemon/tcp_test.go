package daemon

import (
	"log/slog"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// tcpValues returns the TCP options in a file's section "lnetd".
func tcpValues(t *testing.T, lnetd string) config.Values {
	t.Helper()
	return parse(t, "lnetd: {"+lnetd+"}").Drivers[lnet.TypeTCP]
}

func TestTCPConfig(t *testing.T) {
	got := tcpConfig(tcpValues(t, `port: 9000, connect_port: 988, accept: all, source_ports: any,
    socklnd: {sock_timeout: 0, min_reconnectms: 250, nagle: 1, typed_conns: 1, tos: 16, credits: 0x20}`))
	want := socklnd.DefaultConfig()
	want.AcceptPort, want.ConnectPort = 9000, 988
	want.Accept, want.SourcePorts = socklnd.AcceptAll, socklnd.SourceAny
	if c := tcpConfig(tcpValues(t, "port: 9000, socklnd: {accept_port_bulk: 9001, connect_port_bulk: 9002}")); c.AcceptPort != 9000 ||
		c.AcceptPortBulk != 9001 || c.ConnectPort != 0 || c.ConnectPortBulk != 9002 {
		t.Errorf("ports %d, %d, to call %d, %d", c.AcceptPort, c.AcceptPortBulk, c.ConnectPort, c.ConnectPortBulk)
	}
	want.SockTimeout, want.MinReconnect = 0, 250*time.Millisecond
	want.Nagle, want.TOS, want.Tunables.Credits = true, 16, 32
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every parameter is stored in a separate field.
func TestTCPParametersAreApart(t *testing.T) {
	owner := map[string]string{}
	for _, o := range socklnd.Table().Tunables {
		value := o.Min
		if value == o.Default {
			value++
		}
		c := socklnd.DefaultConfig()
		if err := c.Set(o.Parameter, value); err != nil {
			t.Fatal(err)
		}
		changed := cmp.Diff(socklnd.DefaultConfig(), c)
		if other := owner[changed]; changed == "" || other != "" {
			t.Errorf("%s changes what %q does: %s", o.Parameter, other, changed)
		}
		owner[changed] = o.Parameter
	}
}

// Without the right to use privileged ports, a node accepts nodes of the same kind, unless the
// configuration says what it accepts.
func TestTCPAcceptsItsLikes(t *testing.T) {
	for _, tt := range []struct {
		lnetd      string
		privileged bool
		want       string
	}{
		{"port: 9988", false, "all"},
		{"port: 9988", true, "secure"},
		{"port: 988", false, "secure"},
		{"port: 9988, accept: secure", false, "secure"},
		{"port: 9988, accept: none", false, "none"},
		{"", false, "secure"},
	} {
		made := tcp{network: host(), privileged: func() bool { return tt.privileged }}
		m, err := made.make(tcpValues(t, tt.lnetd), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if m.Attrs[3] != tt.want {
			t.Errorf("%q, privileged %v: %v", tt.lnetd, tt.privileged, m.Attrs)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// If the default port is forbidden, another one is used.
func TestTCPTakesAnUnprivilegedPort(t *testing.T) {
	forbidden := &lnd.ListenError{
		Addr: netip.MustParseAddrPort("10.0.0.1:988"), Err: os.NewSyscallError("bind", syscall.EACCES),
	}
	taken := &lnd.ListenError{Addr: forbidden.Addr, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	for _, tt := range []struct {
		lnetd string
		err   error
		want  config.Values
	}{
		{"", forbidden, config.Values{"port": "9988", "connect_port": "9988", "accept": "all"}},
		{"connect_port: 988, accept: secure", forbidden, config.Values{"port": "9988", "connect_port": "988", "accept": "all"}},
		{"port: 988", forbidden, nil},
		{"", taken, nil},
		{"", syscall.EACCES, nil},
	} {
		got := tcpFallback(tcpValues(t, tt.lnetd), tt.err, slog.New(slog.DiscardHandler))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q, %v: %s", tt.lnetd, tt.err, diff)
		}
	}
}
