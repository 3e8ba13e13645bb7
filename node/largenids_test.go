package node_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// smallNIDs is a driver whose interfaces have no header for large NIDs. They report messages that need one.
type smallNIDs struct {
	lnd.Driver
	t *testing.T
}

func (d smallNIDs) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.Driver.Open(ctx, c)
	return smallPort{i, d.t}, err
}

type smallPort struct {
	lnd.Interface
	t *testing.T
}

func (smallPort) LargeNIDs() bool { return false }

func (p smallPort) Send(tx *lnd.Tx) {
	if h := &tx.Header; h.Src.IsLarge() || h.Dest.IsLarge() {
		p.t.Errorf("sent: %s from %s to %s", h.Type, h.Src, h.Dest)
	}
	p.Interface.Send(tx)
}

// A message to a NID with a 16-byte address fails with the reason if the driver on its
// path has no header for such NIDs. The driver does not get the message, and neither the
// NI nor the gateway loses health.
func TestLargeNIDByADriverWithoutThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := smallNIDs{&driver{fabric: newFabric(), typ: lnet.TypeO2IB}, t}
		p := &pair{
			a: newNode(t, node.Config{}), ida: process(t, "10.0.0.1@o2ib"),
			b: newNode(t, node.Config{}), idb: process(t, "10.0.0.2@o2ib"),
		}
		for n, nid := range map[*node.Node]lnet.NID{p.a: p.ida.NID, p.b: p.idb.NID} {
			if _, err := n.AddNI(context.Background(), d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
				t.Fatal(err)
			}
		}
		far := process(t, "fd00::1@tcp")
		if err := p.b.Admin().EnableRouting(); err != nil {
			t.Fatal(err)
		}
		if err := p.a.Admin().AddRoute(context.Background(), far.NID.Net(), p.idb.NID, node.RouteOptions{Hops: 2}); err != nil {
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
		_, err := p.a.AddNI(context.Background(), d,
			lnd.Config{Net: parseNet(t, "o2ib7"), NID: parseNID(t, "fd00::7@o2ib7")})
		if !errors.Is(err, lnd.ErrLargeNID) || !errors.Is(err, node.ErrInvalid) {
			t.Errorf("an NI with a large NID: %v, want ErrLargeNID", err)
		}
	})
}
