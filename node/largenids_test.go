package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/lndtest/rdma"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// A message to a NID with a 16-byte address fails with the reason if the driver on its
// path has no header for such NIDs. The driver does not get the message, and neither the
// NI nor the gateway loses health.
func TestLargeNIDByADriverWithoutThem(t *testing.T) {
	onRDMA(t, rdma.DefaultLimits(), func(t *testing.T, p *rdmaPair) {
		far := process(t, "fd00::1@tcp")
		if err := p.b.EnableRouting(); err != nil {
			t.Fatal(err)
		}
		if err := p.a.AddRoute(context.Background(), far.NID.Net(), p.idb.NID, node.RouteOptions{Hops: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // until the gateway announces that it forwards, and was checked
		var events recorder
		h := bind(t, p.a, portals.MD{Bytes: make([]byte, 10), Threshold: 1, Unlink: true, Handler: &events})
		put(t, p.a, h, far, node.PutOptions{Portal: 5})
		synctest.Wait()
		if e := events.take(); len(e) != 1 || e[0].Type != portals.EventSend || !errors.Is(e[0].Err, lnd.ErrLargeNID) || !errors.Is(e[0].Err, node.ErrUnreachable) {
			t.Errorf("events %+v, want a SEND that has failed with ErrLargeNID", e)
		}
		for _, i := range p.a.NIs() {
			if i.NID == p.ida.NID && i.Health.Value != 1000 {
				t.Errorf("health of %s: %d", i.NID, i.Health.Value)
			}
		}
		_, err := p.a.AddNI(context.Background(), p.fabric.NewDriver(rdma.DefaultLimits()),
			lnd.Config{Net: parseNet(t, "o2ib7"), NID: parseNID(t, "fd00::7@o2ib7")})
		if !errors.Is(err, lnd.ErrLargeNID) || !errors.Is(err, node.ErrInvalid) {
			t.Errorf("an NI with a large NID: %v, want ErrLargeNID", err)
		}
	})
}
