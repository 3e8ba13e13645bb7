package selection

import (
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// Adding many routes at once gives the same order as adding them one by one.
func TestRoutesTogether(t *testing.T) {
	nid := func(k uint32) lnet.NID { return lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), k) }
	var routes []*Route
	for k := range 60 {
		p, r := &PeerNI{}, &Route{}
		p.NID = nid(uint32(k + 1))
		r.Init(lnet.MakeNet(lnet.TypeO2IB, uint16(k%4)), p, 0, 0)
		routes = append(routes, r)
	}
	for have := range len(routes) {
		places := func(n int) int { return (7 * n) % (n + 1) }
		single := NewRouting(routes[:have])
		many := single.WithAll(routes[have:], places)
		for _, r := range routes[have:] {
			single = single.With(r, places(len(single.To(r.Net))))
		}
		for n := range uint16(4) {
			net := lnet.MakeNet(lnet.TypeO2IB, n)
			if !slices.Equal(many.To(net), single.To(net)) {
				t.Fatalf("%d there, net %s: %d routes, want %d in another order", have, net, len(many.To(net)), len(single.To(net)))
			}
		}
		if len(many.Routes()) != len(routes) || !many.Uses(nid(60)) {
			t.Fatalf("%d there: %d routes", have, len(many.Routes()))
		}
	}
}
