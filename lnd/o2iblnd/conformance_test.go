package o2iblnd_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnet"
)

var o2ib = lnet.MakeNet(lnet.TypeO2IB, 0)

func address(k int) string { return fmt.Sprintf("10.8.0.%d", k+1) }

func nidOf(k int) lnet.NID { return lnet.NIDFromIP(o2ib, netip.MustParseAddr(address(k))) }

// nature is a configuration of a fabric and of the drivers on it.
type nature struct {
	fabric.Config
	edit        func(*o2iblnd.Config)
	peerCredits int
	chain       int
}

// config returns the configuration of a driver in process p.
func config(t testing.TB, p *fabric.Process) o2iblnd.Config {
	c := o2iblnd.DefaultConfig()
	c.Provider = p
	if p != nil { // otherwise the devices are those of this host
		c.Host, c.Wall = p.Host(), p.Wall
	}
	c.RedialPause = 50 * time.Millisecond
	c.Logger = testenv.Logger(t)
	return c
}

// world creates a fabric with n hosts, each with a driver.
func (f nature) world(t *testing.T, n int) *lndtest.World {
	f.Report = func(err error) { t.Error(err) }
	fab := fabric.New(f.Config)
	hosts := make([]*fabric.Host, n)
	procs := make([]*fabric.Process, n)
	drivers := make([]*o2iblnd.Driver, n)
	renew := func(k int) {
		procs[k] = hosts[k].Open()
		c := config(t, procs[k])
		if f.edit != nil {
			f.edit(&c)
		}
		d, err := o2iblnd.New(c)
		if err != nil {
			t.Fatal(err)
		}
		drivers[k] = d
	}
	shut := func(k int) {
		if err := drivers[k].Close(); err != nil {
			t.Error(err)
		}
		if err := procs[k].Close(); err != nil {
			t.Error(err)
		}
	}
	for k := range n {
		hosts[k] = fab.Host(fmt.Sprint("host", k), address(k))
		renew(k)
	}
	return &lndtest.World{
		NID: nidOf,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{
				Net: o2ib, NID: nidOf(k), Upper: u,
				Tunables: lnd.Tunables{PeerTimeout: -1, PeerCredits: f.peerCredits},
			})
		},
		Close: func() {
			for k := range n {
				shut(k)
			}
			fab.Close()
		},
		Renew: func(k int) {
			shut(k)
			renew(k)
		},
		Kill: func(a, b int) { fab.Break(hosts[a], hosts[b]) },
		Isolate: func(a, b int) func() {
			fab.Partition(hosts[a], hosts[b], fabric.Both)
			return func() { fab.Heal(hosts[a], hosts[b], fabric.Both) }
		},
		Hold:    func(a, b int) func() { return fab.Hold(hosts[a], hosts[b], fabric.Both).Release },
		SetLink: func(k int, up bool) { hosts[k].Device(0).Port(1).SetUp(up) },
	}
}

// harness returns a harness that runs a nature in bubbles.
func (f nature) harness(conns int) lndtest.Harness {
	return lndtest.Harness{
		New:         f.world,
		Bubble:      synctest.Test,
		Settle:      synctest.Wait,
		Patience:    10 * time.Minute,
		Chain:       f.chain,
		MaxUnplaced: 2 * conns * max(f.peerCredits, 8),
		Ordered:     conns == 1,
	}
}

// TestConformance runs the suite that all drivers share, over fabrics of several natures.
func TestConformance(t *testing.T) {
	quick := func(c *o2iblnd.Config) { c.Timeout = 10 * time.Second }
	several := func(c *o2iblnd.Config) { quick(c); c.ConnsPerPeer = 3 }
	pieces := func(c *o2iblnd.Config) { quick(c); c.WrqSge = 1; c.Checksum = 1 }
	lan := fabric.Link{Latency: 20 * time.Microsecond, Jitter: 10 * time.Microsecond}
	bad := fabric.Link{Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.01, Stale: 0.1}
	for name, n := range map[string]struct {
		nature
		conns int
	}{
		"Perfect":         {nature{edit: quick, chain: 5000}, 1},
		"LAN":             {nature{Config: fabric.Config{Link: lan}, edit: quick, chain: 2000}, 1},
		"Deep":            {nature{Config: fabric.Config{Link: lan}, edit: quick, chain: 2000, peerCredits: 64}, 1},
		"SmallPieces":     {nature{edit: pieces, chain: 2000}, 1},
		"Bad":             {nature{Config: fabric.Config{Link: bad}, chain: 500}, 1},
		"ManyConnections": {nature{Config: fabric.Config{Link: lan}, edit: several, chain: 2000}, 3},
	} {
		if testenv.Race && name != "ManyConnections" {
			continue // the others run the same goroutines
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := n.harness(n.conns)
			if h.MaxUnplaced > 16 {
				// All messages of these cases are posted at once, and posted messages cannot be
				// recalled.
				h.Only = func(theme, name string) bool {
					return theme != "Stall" || !strings.HasPrefix(name, "Recall") || name == "RecallFromOthers"
				}
			}
			if n.edit == nil { // with the default timeout, devices give up first
				h.Only = func(_, name string) bool { return name != "LinkBack" && name != "OwnLinkBack" }
			}
			lndtest.Run(t, h)
		})
	}
}
