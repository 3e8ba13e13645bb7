//go:build o2ib && cgo

package o2iblnd_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
	"github.com/lnetd/lnetd/lnet"
)

// addresses names the variable with two or more addresses on RDMA devices of this machine, which
// may be on one device. Without it the tests are skipped. Cases with more nodes than addresses are
// skipped too.
const addresses = "LNETD_TEST_RDMA"

// TestConformanceOnDevices runs the suite over the machine's devices.
func TestConformanceOnDevices(t *testing.T) {
	var at []netip.Addr
	for _, a := range strings.Fields(os.Getenv(addresses)) {
		at = append(at, netip.MustParseAddr(a))
	}
	if len(at) < 2 {
		t.Skipf("needs RDMA devices: %s='ADDRESS ADDRESS ...'", addresses)
	}
	lndtest.Run(t, lndtest.Harness{
		New: func(t *testing.T, n int) *lndtest.World {
			if n > len(at) {
				t.Skipf("%d nodes, there are %d addresses", n, len(at))
			}
			return onDevices(t, at[:n])
		},
		Patience:    3 * time.Minute,
		Chain:       1000,
		MaxUnplaced: 16,
		Ordered:     true,
	})
}

func onDevices(t *testing.T, at []netip.Addr) *lndtest.World {
	drivers := make([]*o2iblnd.Driver, len(at))
	for k := range at {
		p, err := rdmacore.Open()
		if err != nil {
			t.Fatal(err)
		}
		c := config(t, nil)
		c.Provider, c.Wall = p, nil
		c.Service, c.Timeout = 18987, 20*time.Second
		if drivers[k], err = o2iblnd.New(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	nid := func(k int) lnet.NID { return lnet.NIDFromIP(o2ib, at[k]) }
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{Net: o2ib, NID: nid(k), Upper: u, Tunables: lnd.Tunables{PeerTimeout: -1}})
		},
		Close: func() {
			for _, d := range drivers {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		},
	}
}

// BenchmarkStreamOnDevices is BenchmarkStream over the machine's devices.
func BenchmarkStreamOnDevices(b *testing.B) {
	at := strings.Fields(os.Getenv(addresses))
	if len(at) < 2 {
		b.Skipf("needs RDMA devices: %s='ADDRESS ADDRESS ...'", addresses)
	}
	benchmarkStream(b, func(t testing.TB, credits, room int, registered bool) *pair {
		p := new(pair)
		for k := range p.procs {
			v, err := rdmacore.Open()
			if err != nil {
				t.Fatal(err)
			}
			p.procs[k], p.nids[k] = v, lnet.NIDFromIP(o2ib, netip.MustParseAddr(at[k]))
		}
		p.open(t, credits, room, registered)
		return p
	})
}
