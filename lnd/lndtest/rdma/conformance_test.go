package rdma_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest"
	"github.com/lnetd/lnetd/lnd/lndtest/rdma"
	"github.com/lnetd/lnetd/lnet"
)

// TestConformance runs the suite that all drivers share, in three variants: with the limits of verbs,
// with RDMA for every payload, and with one message at a time.
func TestConformance(t *testing.T) {
	tiny := rdma.DefaultLimits()
	tiny.Immediate = 0
	single := rdma.DefaultLimits()
	single.Unplaced = 1
	for name, limits := range map[string]rdma.Limits{
		"Default": rdma.DefaultLimits(), "NothingImmediate": tiny, "OneAtATime": single,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lndtest.Run(t, lndtest.Harness{
				New:         func(t *testing.T, n int) *lndtest.World { return world(t, n, limits) },
				Bubble:      synctest.Test,
				Settle:      synctest.Wait,
				Patience:    10 * time.Minute,
				Chain:       20_000,
				MaxUnplaced: limits.Unplaced,
				Ordered:     true,
			})
		})
	}
}

func world(t *testing.T, n int, limits rdma.Limits) *lndtest.World {
	net := lnet.MakeNet(lnet.TypeO2IB, 0)
	f := rdma.New(lnet.TypeO2IB, func(err error) { t.Error(err) })
	nid := func(k int) lnet.NID { return lnet.NIDFromNumber(net, uint32(k+1)) }
	drivers := make([]*rdma.Driver, n)
	for k := range n {
		drivers[k] = f.NewDriver(limits)
	}
	return &lndtest.World{
		NID: nid,
		Open: func(ctx context.Context, k int, u lnd.Upper) (lnd.Interface, error) {
			return drivers[k].Open(ctx, lnd.Config{Net: net, NID: nid(k), Device: fmt.Sprint("rdma", k), Upper: u})
		},
		Close: func() {},
		Renew: func(k int) { drivers[k] = f.NewDriver(limits) },
		Kill:  func(a, b int) { f.Kill(nid(a), nid(b)) },
		SetLink: func(k int, up bool) {
			s := lnd.LinkUp
			if !up {
				s = lnd.LinkDown
			}
			f.SetLink(nid(k), s)
		},
	}
}
