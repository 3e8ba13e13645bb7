package selection

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// way is a route in short form: the net's number, gateway, priority and hops.
type way struct {
	net            uint16
	gateway        string
	priority, hops uint32
}

func (w *fixture) table(ways []way) *Routing {
	w.peer(Identity{}, "g1")
	w.peer(Identity{}, "g2")
	w.peer(Identity{}, "g3")
	var routes []*Route
	for _, x := range ways {
		r := &Route{}
		r.Init(lnet.MakeNet(lnet.TypeO2IB, x.net), w.peerNIs[x.gateway], x.priority, x.hops)
		r.SingleHop.Store(true) // shows whether a route moves with all its fields
		r.Up.Store(false)
		routes = append(routes, r)
	}
	return NewRouting(routes)
}

// waysOf is the inverse, by net. Only the order within each net matters.
func waysOf(t *testing.T, routes []*Route) []way {
	t.Helper()
	ways := []way{}
	for _, r := range routes {
		if !r.SingleHop.Load() || r.Up.Load() {
			t.Errorf("route by %v has forgotten what it was like", r.Gateway.Owner)
		}
		ways = append(ways, way{r.Net.Number(), r.Gateway.Owner.(string), r.Priority, r.Hops})
	}
	slices.SortStableFunc(ways, func(a, b way) int { return int(a.net) - int(b.net) })
	return ways
}

func TestRoutesMove(t *testing.T) {
	for _, c := range []struct {
		name       string
		ways       []way
		from, to   string
		same       []string // gateways that belong to the same peer as to
		want, gone []way
	}{
		{name: "no route by it", ways: []way{{1, "g2", 0, 0}}, from: "g1", to: "g3", want: []way{{1, "g2", 0, 0}}},
		{
			name: "each keeps its place", from: "g1", to: "g3",
			ways: []way{{1, "g2", 0, 0}, {1, "g1", 3, 2}, {2, "g1", 0, 0}, {2, "g2", 0, 0}},
			want: []way{{1, "g2", 0, 0}, {1, "g3", 3, 2}, {2, "g3", 0, 0}, {2, "g2", 0, 0}},
		},
		{
			name: "of two alike stays what was there", from: "g1", to: "g3", same: []string{"g3"},
			ways: []way{{1, "g1", 1, 1}, {1, "g3", 1, 1}},
			want: []way{{1, "g3", 1, 1}}, gone: []way{{1, "g3", 1, 1}},
		},
		{
			name: "another NID of the same peer counts", from: "g1", to: "g3", same: []string{"g2", "g3"},
			ways: []way{{1, "g1", 1, 1}, {1, "g2", 0, 1}},
			want: []way{{1, "g2", 0, 1}}, gone: []way{{1, "g3", 1, 1}},
		},
		{
			name: "better in one respect is not enough", from: "g1", to: "g3", same: []string{"g3"},
			ways: []way{{1, "g1", 0, 1}, {1, "g3", 1, 1}},
			want: []way{{1, "g3", 1, 1}}, gone: []way{{1, "g3", 0, 1}},
		},
		{
			name: "better in both takes the place", from: "g1", to: "g3", same: []string{"g3"},
			ways: []way{{1, "g1", 0, 0}, {1, "g3", 1, 2}},
			want: []way{{1, "g3", 0, 0}}, gone: []way{{1, "g3", 1, 2}},
		},
		{
			name: "other nets do not matter", from: "g1", to: "g3", same: []string{"g3"},
			ways: []way{{1, "g1", 1, 1}, {1, "g2", 0, 1}, {2, "g3", 0, 1}},
			want: []way{{1, "g3", 1, 1}, {1, "g2", 0, 1}, {2, "g3", 0, 1}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			table := w.table(c.ways)
			next, gone := table.MoveGateway(nidOf(t, c.from), w.peerNIs[c.to], func(r *Route) bool {
				return slices.Contains(c.same, r.Gateway.Owner.(string))
			})
			if c.gone == nil {
				c.gone = []way{}
			}
			if diff := cmp.Diff([][]way{c.want, c.gone}, [][]way{waysOf(t, next.Routes()), waysOf(t, gone)}, cmp.AllowUnexported(way{})); diff != "" {
				t.Errorf("what is there, what is gone (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.ways, waysOf(t, table.Routes()), cmp.AllowUnexported(way{})); diff != "" {
				t.Errorf("the table itself has changed (-want +got)\n%s", diff)
			}
		})
	}
}

func TestRoutesAreRemoved(t *testing.T) {
	ways := []way{{1, "g1", 0, 0}, {1, "g2", 0, 0}, {2, "g1", 0, 0}}
	for _, c := range []struct {
		gateway    string
		kept, gone []way
	}{
		{"g1", []way{ways[1]}, []way{ways[0], ways[2]}},
		{"g2", []way{ways[0], ways[2]}, []way{ways[1]}},
		{"g3", ways, []way{}},
	} {
		w := newFixture(t)
		table := w.table(ways)
		next, gone := table.Without(func(r *Route) bool { return r.Gateway.Owner == c.gateway })
		got := [][]way{waysOf(t, next.Routes()), waysOf(t, gone)}
		if diff := cmp.Diff([][]way{c.kept, c.gone}, got, cmp.AllowUnexported(way{})); diff != "" {
			t.Errorf("without %s (-want +got)\n%s", c.gateway, diff)
		}
		if next.Uses(nidOf(t, c.gateway)) {
			t.Errorf("without %s: it is still a gateway", c.gateway)
		}
	}
}

// A gateway's NID was removed and added again. Routes lead through the peer NI that now has
// it, and routes whose gateway is unchanged are the same objects.
func TestRoutesAreRebound(t *testing.T) {
	w := newFixture(t)
	table := w.table([]way{{1, "g1", 2, 3}, {1, "g2", 0, 0}, {2, "g3", 0, 0}})
	anew := &PeerNI{}
	anew.Init(nidOf(t, "g1"), "anew")
	next := table.RebindGateways(func(nid lnet.NID) *PeerNI {
		switch nid {
		case anew.NID:
			return anew
		case w.peerNIs["g2"].NID:
			return w.peerNIs["g2"]
		}
		return nil
	})
	want := []way{{1, "anew", 2, 3}, {1, "g2", 0, 0}, {2, "g3", 0, 0}}
	if diff := cmp.Diff(want, waysOf(t, next.Routes()), cmp.AllowUnexported(way{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for k, stays := range []bool{false, true, true} {
		if (next.Routes()[k] == table.Routes()[k]) != stays {
			t.Errorf("route %d: the same one: %v, want %v", k, !stays, stays)
		}
	}
	if got := table.Routes()[0].Gateway.Owner; got != "g1" {
		t.Errorf("the table itself has changed: %v", got)
	}
}

// A table finds the routes through a gateway, in its order.
func TestRoutesThroughGateway(t *testing.T) {
	gateways := [2]*PeerNI{{}, {}}
	for k, p := range gateways {
		p.NID = lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeTCP, 0), uint32(k+1))
	}
	var routes []*Route
	for k := range 6 {
		r := &Route{}
		r.Init(lnet.MakeNet(lnet.TypeO2IB, uint16(k)), gateways[k%2], 0, 0)
		routes = append(routes, r)
	}
	table := NewRouting(routes)
	for k, p := range gateways {
		if want := []*Route{routes[k], routes[k+2], routes[k+4]}; !slices.Equal(table.Through(p.NID), want) {
			t.Errorf("through %s: %v, want %v", p.NID, table.Through(p.NID), want)
		}
	}
	table, _ = table.Without(func(r *Route) bool { return r.Gateway == gateways[1] })
	if table.Uses(gateways[1].NID) || len(table.Through(gateways[1].NID)) != 0 || !table.Uses(gateways[0].NID) {
		t.Error("the routes through a gateway were removed, but it is still in use, or the other one no longer is")
	}
	if none := (*Routing)(nil); none.Uses(gateways[0].NID) || none.Through(gateways[0].NID) != nil {
		t.Error("a table without routes uses a gateway")
	}
}
