package uplnd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

var proxied = lnet.MakeNet(lnet.TypeTCP, 0)

// TestConformance runs the suite that all drivers share. Each node is served by a proxy in this process, whose
// driver is socklnd over a network in memory. Cases that wait for timeouts are left out, because time is real.
//
// Header: payloads are received when lnetd has a place for them. Ahead: they are received before, so that no
// arrival is withdrawn.
//
// UP-1, UP-6, UP-7, MPI-28
func TestConformance(t *testing.T) {
	for name, ahead := range map[string]int{"Header": -1, "Ahead": 0} {
		t.Run(name, func(t *testing.T) {
			lndtest.Run(t, lndtest.Harness{
				New: func(t *testing.T, n int) *lndtest.World { return inMemory(t, n, ahead) },
				Only: func(theme, name string) bool {
					return theme != "Stall" && (ahead < 0 || theme != "Withdrawal") && (ahead >= 0 || name != "NoneWithinOneLife") &&
						!slices.Contains(disconnectsAtOnce, name)
				},
				Chain:       500,
				MaxUnplaced: 10, // those received ahead, and one for each connection
				Ordered:     true,
			})
		})
	}
}

// disconnectsAtOnce are cases in which a peer is disconnected when Disconnect returns. A proxy carries it out a
// moment later, and messages that arrive meanwhile are lost with their connection. In NoneWithinOneLife only those
// are lost whose header comes first.
var disconnectsAtOnce = []string{"PlacedAtTheSameMoment", "AnsweredWithinWithdrawn", "SendAndDisconnectWithinPeerRestarted", "DisconnectFromUpcalls"}

// settled is an upper that does not see how the link comes up.
type settled struct {
	lnd.Upper
	open atomic.Bool
}

func (s *settled) LinkChanged(l lnd.LinkState) {
	if s.open.Load() {
		s.Upper.LinkChanged(l)
	}
}

// site is an lnetd with its proxy, for one node.
type site struct {
	server *uplnd.Server
	driver *uplnd.Driver
	socket string
	served sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	stop func()
	done chan error
}

// shortDir returns a directory whose path is short enough for a socket in it, whatever the name of the test is.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newSite starts an lnetd without a proxy.
func newSite(t testing.TB, c uplnd.Config) *site {
	t.Helper()
	if c.Logger == nil {
		c.Logger = testenv.Logger(t)
	}
	server, err := uplnd.NewServer(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{server: server, driver: server.Driver(proxied.Type(), ""), socket: filepath.Join(shortDir(t), "proxies")}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: s.socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	s.served.Go(func() {
		if err := server.Serve(l); err != nil {
			t.Error(err)
		}
	})
	return s
}

// starter starts a proxy for an NI. done gets the result of its end; stop ends it.
type starter func(socket string, c *lnd.Config) (done chan error, stop func())

// inProcess returns a starter of proxies in this process.
func inProcess(d lnd.Driver, ahead int) starter {
	return func(socket string, c *lnd.Config) (chan error, func()) {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- proxy.Run(ctx, proxy.Config{
				Socket: socket, Name: "test", Net: c.Net, NID: c.NID, Driver: d, MaxAhead: ahead, Logger: c.Logger,
			})
		}()
		return done, stop
	}
}

// open opens an NI, starts a proxy for it, and waits until that carries messages.
func (s *site) open(ctx context.Context, c lnd.Config, start starter) (lnd.Interface, error) {
	upper := &settled{Upper: c.Upper}
	c.Upper = upper
	i, err := s.driver.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.done, s.stop = start(s.socket, &c)
	s.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); i.Link() != lnd.LinkUp; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil, errors.New("the link does not come up")
		}
	}
	upper.open.Store(true)
	return i, nil
}

// leave waits until the proxy has ended, whose NI is closed.
func (s *site) leave(t testing.TB) {
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return
	}
	if err := <-done; !errors.Is(err, syscall.ESHUTDOWN) {
		t.Errorf("the proxy ended with %v", err)
	}
	stop()
}

// close ends everything.
func (s *site) close(t testing.TB) {
	s.leave(t)
	if err := s.server.Close(context.Background()); err != nil {
		t.Error(err)
	}
	s.served.Wait()
}

// inMemory returns a world of n nodes, each an NI of an lnetd with a proxy.
func inMemory(t *testing.T, n, ahead int) *lndtest.World {
	fab := simlnd.New(simlnd.Config{})
	address := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(k + 1)}) }
	nid := func(k int) lnet.NID { return lnet.NIDFromIP(proxied, address(k)) }
	hosts := make([]*simlnd.Host, n)
	sites := make([]*site, n)
	drivers := make([]*socklnd.Driver, n)
	logger := testenv.Logger(t)
	renew := func(k int) {
		c := socklnd.DefaultConfig()
		c.Logger = logger
		c.MinReconnect, c.MaxReconnect = 50*time.Millisecond, 200*time.Millisecond
		d, err := simlnd.NewDriver(hosts[k], c)
		if err != nil {
			t.Fatal(err)
		}
		drivers[k] = d
	}
	closeDriver := func(k int) {
		sites[k].leave(t)
		if err := drivers[k].Close(); err != nil {
			t.Error(err)
		}
	}
	for k := range n {
		hosts[k] = fab.Host(fmt.Sprint("host", k), address(k).String())
		sites[k] = newSite(t, uplnd.Config{AreaSize: 80 << 20, Quarantine: -1})
		renew(k)
	}
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			sites[k].leave(t)
			return sites[k].open(ctx, lnd.Config{Net: proxied, NID: nid(k), Upper: u, Logger: logger}, inProcess(drivers[k], ahead))
		},
		Close: func() {
			for k, s := range sites {
				closeDriver(k)
				s.close(t)
			}
		},
		Renew: func(k int) {
			closeDriver(k)
			renew(k)
		},
		Kill:    func(a, b int) { fab.Break(hosts[a], hosts[b]) },
		Hold:    func(a, b int) func() { return fab.Hold(hosts[a], hosts[b], simlnd.Both).Release },
		SetLink: func(k int, up bool) { hosts[k].Interface("eth0").SetUp(up) },
	}
}
