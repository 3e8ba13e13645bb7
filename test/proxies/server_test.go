package proxies

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/examples/udplnd"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// tcp returns a net.
func tcp(number uint16) lnet.Net { return lnet.MakeNet(lnet.TypeTCP, number) }

// loopback returns a NID of this run whose address is one of the loopback device. Other runs use other addresses.
func loopback(net lnet.Net, host byte) lnet.NID {
	pid := os.Getpid()
	return lnet.NIDFromIP(net, netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), host}))
}

// server accepts proxies.
type server struct {
	*uplnd.Server
	socket string
	served sync.WaitGroup
}

// startServer starts a server of proxies that listens at a path.
func startServer(socket string, c uplnd.Config) (*server, error) {
	u, err := uplnd.NewServer(c)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(socket)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	s := &server{Server: u, socket: socket}
	s.served.Go(func() { _ = u.Serve(l) })
	return s, nil
}

// newServer starts a server of proxies until the end of the test.
func newServer(t testing.TB, c uplnd.Config) *server {
	t.Helper()
	s, err := startServer(filepath.Join(testenv.SocketDir(t), "proxies"), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		s.served.Wait()
	})
	return s
}

// parameters are those of nodes that notice soon that a router is back.
func parameters() *node.Parameters {
	p := node.DefaultParameters()
	p.TransactionTimeout, p.RetryCount = 31*time.Second, 2
	p.RouterCheckInterval, p.RouterPingTimeout = time.Second, 5*time.Second
	p.MaxRecoveryPingInterval = time.Second
	return &p
}

// newNode starts a node until the end of the test.
func newNode(t testing.TB, c node.Config) *node.Node {
	t.Helper()
	if c.Parameters == nil {
		c.Parameters = parameters()
	}
	n, err := node.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// addNI adds an NI to a node.
func addNI(t testing.TB, n *node.Node, d lnd.Driver, nid lnet.NID) {
	t.Helper()
	if _, err := n.AddNI(t.Context(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		t.Fatal(err)
	}
}

// newDriver returns a driver until the end of the test.
func newDriver(t testing.TB, over string, port int) lnd.Driver {
	t.Helper()
	d, end, err := openDriver(over, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// openDriver returns a driver that reconnects soon: over is "" for socklnd, or "udp".
func openDriver(over string, port int) (d lnd.Driver, end func() error, err error) {
	if over == "udp" {
		return &udplnd.Driver{Port: port, Listen: udplnd.UDP}, func() error { return nil }, nil
	}
	c := socklnd.UnprivilegedConfig(port)
	c.MinReconnect, c.MaxReconnect = 50*time.Millisecond, 200*time.Millisecond
	s, err := socklnd.New(c)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// awaitLink waits until an NI of a node has the link state.
func awaitLink(t testing.TB, n *node.Node, nid lnet.NID, want lnd.LinkState) {
	t.Helper()
	within(t, fmt.Sprintf("link of %s: %s", nid, want), func() bool { return niOf(n, nid).Link == want })
}

// niOf returns an NI of a node.
func niOf(n *node.Node, nid lnet.NID) node.NIInfo {
	for _, i := range n.NIs() {
		if i.NID == nid {
			return i
		}
	}
	return node.NIInfo{}
}

// beProxy serves an NI. If it is detached, it attaches again, as all programs do that serve an NI.
func beProxy(ctx context.Context, o order) error {
	nid, err := lnet.ParseNID(o.NID)
	if err != nil {
		return err
	}
	d, end, err := openDriver(o.Over, o.Port)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := proxy.Run(ctx, proxy.Config{
			Socket: o.Socket, Name: "honest", Net: nid.Net(), NID: nid, Driver: d, MaxAhead: o.Ahead,
			Attached: func(lnd.Interface) { fmt.Println("up") },
		})
		if err != nil {
			fmt.Println("again:", err)
		}
		rest(ctx, 100*time.Millisecond)
	}
	return end()
}
