package socklnd

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// socketOptions returns options of the socket of the node's connection with a peer.
func (n *node) socketOptions(id lnet.ProcessID, options map[string][2]int) map[string]int {
	n.t.Helper()
	got := map[string]int{}
	n.awaitState(id, "connection", func(p *peer) bool {
		if len(p.conns) == 0 {
			return false
		}
		s := p.conns[0].stream
		switch d := s.(type) {
		case disguisedStream:
			s = d.hostly
		case disguisedCall:
			s = d.hostly
		}
		err := control(s.(*hostStream).raw, func(fd int) error {
			for name, o := range options {
				v, err := unix.GetsockoptInt(fd, o[0], o[1])
				if err != nil {
					return err
				}
				got[name] = v
			}
			return nil
		})
		if err != nil {
			n.t.Error(err)
		}
		return true
	})
	return got
}

// TestSocketOptions checks the socket options on both sides (socklnd 16).
//
// socklnd 16 (1)
func TestSocketOptions(t *testing.T) {
	options := map[string][2]int{
		"nodelay":            {unix.IPPROTO_TCP, unix.TCP_NODELAY},
		"keepalive":          {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		"keepalive idle":     {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
		"keepalive interval": {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
		"keepalive count":    {unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
		"tos":                {unix.IPPROTO_IP, unix.IP_TOS},
		"linger2":            {unix.IPPROTO_TCP, unix.TCP_LINGER2},
		"sndbuf":             {unix.SOL_SOCKET, unix.SO_SNDBUF},
	}
	for _, test := range []struct {
		name string
		edit func(*Config)
		want map[string]int
	}{
		{"defaults", func(*Config) {}, map[string]int{
			"nodelay": 1, "keepalive": 1, "keepalive idle": 30, "keepalive interval": 5, "keepalive count": 5,
			"tos": 0, "linger2": -1,
		}},
		{"set", func(c *Config) {
			c.Nagle, c.TOS, c.TxBufferSize = true, 0x48, 65536
			c.KeepaliveIdle, c.KeepaliveInterval, c.KeepaliveCount = 7*time.Second, 3*time.Second, 9
		}, map[string]int{
			"nodelay": 0, "keepalive": 1, "keepalive idle": 7, "keepalive interval": 3, "keepalive count": 9,
			"tos": 0x48, "sndbuf": 2 * 65536, // Linux doubles the value
		}},
		{"no keepalive", func(c *Config) { c.KeepaliveCount = 0 }, map[string]int{"keepalive": 0}},
	} {
		for _, side := range []string{"passive", "active"} {
			t.Run(test.name+" "+side, func(t *testing.T) {
				n := start(t, test.edit)
				p := newPuppet(n)
				if side == "passive" {
					p.connect(protocol.Control)
					n.awaitState(p.id(), "connection in use", func(p *peer) bool { return len(p.set.Load().control) == 1 })
				} else {
					p.listen()
					n.put(p.id(), 0)
					p.take().receive()
				}
				got := n.socketOptions(p.id(), options)
				for name, want := range test.want {
					if got[name] != want {
						t.Errorf("%s is %d, want %d", name, got[name], want)
					}
				}
			})
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	c := DefaultConfig()
	c.AcceptPort, c.AcceptPortBulk = testPort, testPort
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	u := &node{t: t}
	address := newAddress()
	nid := lnet.NIDFromIP(tcp, address)
	first, err := d.Open(context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := lnet.ParseNID("192.0.2.1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		c    lnd.Config
		want error
	}{
		{"no upper", context.Background(), lnd.Config{Net: tcp}, nil},
		{"another net type", context.Background(), lnd.Config{Net: lnet.MakeNet(lnet.TypeO2IB, 0), Upper: u}, nil},
		{"a NID of another net", context.Background(), lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 1), NID: nid, Upper: u}, nil},
		{"the same NID", context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u}, lnd.ErrExists},
		{"an address of nobody", context.Background(), lnd.Config{Net: tcp, NID: elsewhere, Upper: u}, syscall.ENODEV},
		{"a device of nobody", context.Background(), lnd.Config{Net: tcp, Device: "nosuch0", Upper: u}, syscall.ENODEV},
		{"an unknown tunable", context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u, Options: lnd.Values{"x": 5}}, nil},
		{"many connections", context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u, Options: lnd.Values{"conns_per_peer": 128}}, nil},
		{"no time", canceled, lnd.Config{Net: tcp, NID: nid, Upper: u}, context.Canceled},
	} {
		if _, err := d.Open(test.ctx, test.c); err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		}
	}

	// Another driver cannot listen on the port. The interface that could not be opened leaves
	// nothing behind.
	other, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = other.Open(context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u})
		var listen *lnd.ListenError
		if !errors.As(err, &listen) || !errors.Is(err, syscall.EADDRINUSE) || listen.Addr.Addr() != address {
			t.Errorf("error %v, want EADDRINUSE for %s", err, address)
		}
	}
	// Another net on the same address shares the acceptor.
	second, err := d.Open(context.Background(), lnd.Config{Net: lnet.MakeNet(lnet.TypeTCP, 1), NID: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 1), address), Upper: u})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := first.Close(context.Background()); !errors.Is(err, lnd.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := other.Open(context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the acceptor went while a user was left: %v", err)
	}
	if err := d.Close(); err == nil {
		t.Error("closed with an interface open")
	}
	if err := second.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for _, d := range []*Driver{d, other} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Open(context.Background(), lnd.Config{Net: tcp, NID: nid, Upper: u}); !errors.Is(err, lnd.ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}

// TestDefaultsAreThoseOfTheTable compares the defaults with the table of the specification. The
// bounds on half-open connections are lnetd's own (decisions 9).
//
// socklnd 18 (1), 19 (1)
func TestDefaultsAreThoseOfTheTable(t *testing.T) {
	want := Config{
		Tunables:             lnd.Tunables{Credits: 256, PeerCredits: 8, PeerBufferCredits: 0, PeerTimeout: 180 * time.Second},
		Accept:               AcceptSecure,
		AcceptPort:           988,
		AcceptBacklog:        4096,
		AcceptTimeout:        5 * time.Second,
		MaxHalfOpen:          256,
		MaxHalfOpenPerSource: 8,
		SockTimeout:          50 * time.Second,
		MinReconnect:         1000 * time.Millisecond,
		MaxReconnect:         60000 * time.Millisecond,
		EagerAck:             0,
		TypedConns:           true,
		MinBulk:              1024,
		TxBufferSize:         0,
		RxBufferSize:         0,
		Nagle:                false,
		RoundRobin:           true,
		Keepalive:            30 * time.Second,
		KeepaliveIdle:        30 * time.Second,
		KeepaliveCount:       5,
		KeepaliveInterval:    5 * time.Second,
		EnableChecksum:       false,
		NonblockingZCAck:     true,
		ConnsPerPeer:         0,
		TOS:                  -1,
	}
	if d := cmp.Diff(want, DefaultConfig()); d != "" {
		t.Errorf("defaults (-want +got):\n%s", d)
	}
}

// socklnd 19 (1)
func TestConfigIsChecked(t *testing.T) {
	if _, err := New(DefaultConfig()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for name, edit := range map[string]func(*Config){
		"accept":             func(c *Config) { c.Accept = 9 },
		"accept_port":        func(c *Config) { c.AcceptPort = 65536 },
		"no accept_port":     func(c *Config) { c.AcceptPort = 0 },
		"accept_port_bulk":   func(c *Config) { c.AcceptPortBulk = -1 },
		"connect_port":       func(c *Config) { c.ConnectPort = 1 << 20 },
		"connect_port_bulk":  func(c *Config) { c.ConnectPortBulk = -1 },
		"accept_timeout":     func(c *Config) { c.AcceptTimeout = 0 },
		"half-open":          func(c *Config) { c.MaxHalfOpen = 0 },
		"half-open (source)": func(c *Config) { c.MaxHalfOpenPerSource = 0 },
		"sock_timeout":       func(c *Config) { c.SockTimeout = -1 },
		"min_reconnect":      func(c *Config) { c.MinReconnect = 0 },
		"max_reconnect":      func(c *Config) { c.MaxReconnect = c.MinReconnect - 1 },
		"min_bulk":           func(c *Config) { c.MinBulk = -1 },
		"tx_buffer_size":     func(c *Config) { c.TxBufferSize = -1 },
		"conns_per_peer":     func(c *Config) { c.ConnsPerPeer = 128 },
		"tos":                func(c *Config) { c.TOS = 256 },
		"typed_conns":        func(c *Config) { c.TypedConns = false },
		// lnet-core 7.1 bounds
		"credits":      func(c *Config) { c.Tunables.Credits = 0 },
		"peer_credits": func(c *Config) { c.Tunables.PeerCredits = 0 },
	} {
		c := DefaultConfig()
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: a bad value is taken", name)
		}
	}
}

func TestAcceptModesAsText(t *testing.T) {
	for text, want := range map[string]Accept{"secure": AcceptSecure, "all": AcceptAll, "none": AcceptNone} {
		var a Accept
		if err := a.UnmarshalText([]byte(text)); err != nil || a != want || a.String() != text {
			t.Errorf("%q became %v, error %v", text, a, err)
		}
	}
	a := AcceptAll
	if err := a.UnmarshalText([]byte("some")); err == nil || a != AcceptAll {
		t.Errorf("%q became %v, error %v", "some", a, err)
	}
}

// socklnd 2.2 (1), 2.2 (3)
func TestOptionsOfOneInterface(t *testing.T) {
	n := start(t, nil)
	other, err := n.driver.Open(context.Background(), lnd.Config{
		Net: tcp, NID: lnet.NIDFromIP(tcp, newAddress()), Upper: n,
		Options:  lnd.Values{"conns_per_peer": 3, "tos": 0x20},
		Tunables: lnd.Tunables{PeerCredits: 1000, Credits: 50, PeerTimeout: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	i := other.(*Interface)
	if o := i.Options(); o["conns_per_peer"] != 3 || o["tos"] != 0x20 {
		t.Errorf("options %v", o)
	}
	if o := n.Options(); o["conns_per_peer"] != 1 || o["tos"] != -1 {
		t.Errorf("the first one's options %v", o)
	}
	// lnet-core 7.1 defaults, 7.1 bounds
	want := lnd.Tunables{PeerTimeout: 180 * time.Second, PeerCredits: 50, Credits: 50}
	if got := i.Tunables(); got != want {
		t.Errorf("tunables %+v, want %+v", got, want)
	}
	if err := i.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
