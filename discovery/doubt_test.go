package discovery

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// Two nodes have the same NID, and each replies with it when it is pinged there. Discovery
// still comes to rest.
func TestTwoNodesClaimOneNID(t *testing.T) {
	a, b, claimed := manyNID(0, 2), manyNID(0, 3), manyNID(1, 9)
	for _, c := range []struct {
		name   string
		listsA []lnet.NID
		listsB []lnet.NID
	}{
		{"neither's primary NID", []lnet.NID{a, claimed}, []lnet.NID{b, claimed}},
		{"the primary NID of one", []lnet.NID{claimed, a}, []lnet.NID{b, claimed}},
		{"the primary NID of both", []lnet.NID{claimed, a}, []lnet.NID{claimed, b}},
	} {
		m := New(Config{Local: Local{Seq: 2}, Nets: []lnet.Net{a.Net(), claimed.Net()}})
		says := func(nids []lnet.NID) Content {
			r := Content{Info: lnet.PingInfo{Features: lnet.FeatNIStatus | lnet.FeatMultiRail | lnet.FeatDiscovery, Seq: 5}}
			for _, nid := range nids {
				r.Info.NIs = append(r.Info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
			}
			r.Size = r.Info.Size()
			return r
		}
		answer := func(x SendPing) Content {
			if v := m.Find(b); x.To == b || x.To == claimed && v != nil && v.ID == x.Peer {
				return says(c.listsB)
			}
			return says(c.listsA)
		}
		for k := range 20 {
			m.Discover(0, a, Key(2*k))
			m.Discover(0, b, Key(2*k+1))
			m.PushReceived(0, a, says(c.listsA))
			m.PushReceived(0, b, says(c.listsB))
			pings := 0
			for busy := true; busy; {
				for m.HasWork() {
					m.Step(0)
				}
				busy = false
				for _, x := range append([]Action(nil), m.Actions()...) {
					switch x := x.(type) {
					case SendPing:
						pings++
						busy = true
						m.PingReply(0, x.ID, Reply{From: x.To, Content: answer(x)})
					case SendPush:
						busy = true
						m.PushAcked(0, x.ID)
					}
				}
				if pings > 4*repingsMax {
					t.Fatalf("%s: push %d: %d pings, and no end", c.name, k, pings)
				}
			}
			if err := m.check(); err != nil {
				t.Fatalf("%s: push %d: %v", c.name, k, err)
			}
		}
	}
}
