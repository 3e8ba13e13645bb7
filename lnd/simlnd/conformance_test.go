package simlnd_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, with socklnd over fabrics with different
// properties.
func TestConformance(t *testing.T) {
	lan := simlnd.Link{Latency: 50 * time.Microsecond, Jitter: 20 * time.Microsecond, Bandwidth: 1 << 30}
	bad := simlnd.Link{Latency: 5 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: 0.02}
	jittery := simlnd.Link{Latency: time.Millisecond, Jitter: 20 * time.Millisecond}
	natures := []struct {
		name string
		fabric
	}{
		{"Perfect", fabric{}},
		{"LAN", fabric{Config: simlnd.Config{Link: lan}}},
		{"Lossy", fabric{Config: simlnd.Config{Link: bad, SendBuffer: 5000, ReceiveBuffer: 3000}, chain: 2000}},
		{"IPv6", fabric{Config: simlnd.Config{Link: lan}, ipv6: true, chain: 2000}},
		{"ManyConnections", fabric{Config: simlnd.Config{Link: lan}, connsPerPeer: 4, chain: 2000}},
		{"Impatient", fabric{Config: simlnd.Config{Link: jittery}, connsPerPeer: 3, reconnect: 20 * time.Millisecond, chain: 500}},
	}
	for k, nature := range natures {
		if testenv.Race && nature.name != "ManyConnections" {
			continue // the other fabrics use the same goroutines
		}
		t.Run(nature.name, func(t *testing.T) {
			t.Parallel()
			f := nature.fabric
			f.Seed = uint64(k + 1)
			lndtest.Run(t, lndtest.Harness{
				New:         f.world,
				Bubble:      synctest.Test,
				Settle:      synctest.Wait,
				Patience:    10 * time.Minute,
				Chain:       f.chain,
				MaxUnplaced: 1 + max(f.connsPerPeer, 1), // CONTROL, BULK_OUT
				Ordered:     f.connsPerPeer < 2,
			})
		})
	}
}

// TestRaces makes nodes connect to each other at once, over a network without loss but with varying
// delays. Every message must arrive. Each seed gives another interleaving.
func TestRaces(t *testing.T) {
	for seed := range uint64(testenv.Fewer(60)) {
		t.Run(fmt.Sprint("Seed", seed), func(t *testing.T) {
			t.Parallel()
			f := fabric{
				Config: simlnd.Config{
					Seed: seed,
					Link: simlnd.Link{Latency: time.Millisecond, Jitter: 30 * time.Millisecond},
				},
				connsPerPeer: 1 + int(seed)%3,
				reconnect:    200 * time.Millisecond,
			}
			lndtest.Run(t, lndtest.Harness{
				New:      f.world,
				Bubble:   synctest.Test,
				Settle:   synctest.Wait,
				Patience: 10 * time.Minute,
				Only: func(theme, name string) bool {
					return name == "BothSendFirst" || name == "BothConnectAtOnce" || name == "EverybodySendsFirst"
				},
			})
		})
	}
}

// fabric is the properties of a fabric and of its drivers.
type fabric struct {
	simlnd.Config
	ipv6         bool
	connsPerPeer int
	chain        int
	// reconnect, if not 0, is the pause after a race.
	reconnect time.Duration
}

func (f fabric) address(k int) netip.Addr {
	if f.ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00::%d", k+1))
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(k + 1)})
}

// world creates a fabric with n hosts and a driver on each.
func (f fabric) world(t *testing.T, n int) *lndtest.World {
	net := lnet.MakeNet(lnet.TypeTCP, 0)
	fab := simlnd.New(f.Config)
	hosts := make([]*simlnd.Host, n)
	drivers := make([]*socklnd.Driver, n)
	nid := func(k int) lnet.NID { return lnet.NIDFromIP(net, f.address(k)) }
	renew := func(k int) {
		c := socklnd.DefaultConfig()
		c.ConnsPerPeer = f.connsPerPeer
		if f.reconnect > 0 {
			c.MinReconnect, c.MaxReconnect = f.reconnect, 10*f.reconnect
		}
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		d, err := simlnd.NewDriver(hosts[k], c)
		if err != nil {
			t.Fatal(err)
		}
		drivers[k] = d
	}
	closeDriver := func(d *socklnd.Driver) {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	for k := range n {
		hosts[k] = fab.Host(fmt.Sprint("host", k), f.address(k).String())
		renew(k)
	}
	var mu sync.Mutex
	cut := map[[2]string]int{}
	fab.OnConnect(func(c *simlnd.Conn) {
		mu.Lock()
		defer mu.Unlock()
		way := [2]string{c.From().Addr().String(), c.To().Addr().String()}
		if at, ok := cut[way]; ok {
			c.Cut(simlnd.Forward, uint64(at), simlnd.CutReset)
			delete(cut, way)
		}
	})
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{Net: net, NID: nid(k), Upper: u})
		},
		Close: func() {
			for _, d := range drivers {
				closeDriver(d)
			}
			fab.Close()
		},
		Renew: func(k int) {
			closeDriver(drivers[k])
			renew(k)
		},
		Kill: func(a, b int) { fab.Break(hosts[a], hosts[b]) },
		Isolate: func(a, b int) func() {
			fab.Partition(hosts[a], hosts[b], simlnd.Both)
			return func() { fab.Heal(hosts[a], hosts[b], simlnd.Both) }
		},
		Hold: func(a, b int) func() { return fab.Hold(hosts[a], hosts[b], simlnd.Both).Release },
		CutAfter: func(a, b int, at int) {
			mu.Lock()
			defer mu.Unlock()
			cut[[2]string{f.address(a).String(), f.address(b).String()}] = at
		},
		SetLink: func(k int, up bool) { hosts[k].Interface("eth0").SetUp(up) },
	}
}
