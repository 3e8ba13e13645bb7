package selection

import (
	"errors"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// The NIDs of selection 8: local NIs A and O (T on another tcp net), B, PO and N of a peer,
// and remote R behind gateways g (h on another tcp net).
var named = map[string]string{
	"A1": "10.0.0.1@tcp", "A2": "10.0.0.2@tcp", "O1": "10.1.0.1@o2ib", "T1": "10.2.0.1@tcp1",
	"B1": "10.0.0.11@tcp", "B2": "10.0.0.12@tcp", "B3": "10.0.0.13@tcp", "PO": "10.1.0.11@o2ib",
	"R1": "10.1.0.21@o2ib", "R2": "10.1.0.22@o2ib", "N1": "21@gni",
	"g1": "10.0.0.31@tcp", "g2": "10.0.0.32@tcp", "g3": "10.0.0.33@tcp", "g1b": "10.0.0.41@tcp",
	"g1o": "10.1.0.31@o2ib", "g2o": "10.1.0.32@o2ib", "h1": "10.2.0.31@tcp1", "lo": "0@lo",
}

func nidOf(t testing.TB, name string) lnet.NID {
	t.Helper()
	n, err := lnet.ParseNID(named[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// fixture is a node and the objects that it uses, by the names above.
type fixture struct {
	t        testing.TB
	view     View
	nis      map[string]*NI
	peerNIs  map[string]*PeerNI
	routes   map[string]*Route // by gateway
	policies Policies
	compiled *Compiled
}

func newFixture(t testing.TB) *fixture {
	return &fixture{
		t: t, nis: make(map[string]*NI), peerNIs: make(map[string]*PeerNI), routes: make(map[string]*Route),
		view: View{Local: &Local{}},
	}
}

// local sets the NIs of the node.
func (w *fixture) local(names ...string) {
	var nis []*NI
	for _, name := range names {
		i := w.nis[name]
		if i == nil {
			i = &NI{}
			i.Init(nidOf(w.t, name), UnknownCPT, name)
			i.Credits.Store(256)
			w.nis[name] = i
		}
		nis = append(nis, i)
	}
	w.view.Local = NewLocal(w.view.Local, nis)
	w.apply()
}

// peer creates a peer with these NIDs, the first of which is the primary NID.
func (w *fixture) peer(id Identity, names ...string) *Peer {
	var nis []*PeerNI
	var old *Peer
	for _, name := range names {
		p := w.peerNIs[name]
		if p == nil {
			p = &PeerNI{}
			p.Init(nidOf(w.t, name), name)
			p.Credits.Store(8)
			w.peerNIs[name] = p
		}
		if old == nil {
			old = p.Peer()
		}
		nis = append(nis, p)
	}
	id.Primary = nis[0].NID
	p := NewPeer(old, id, nis)
	p.Publish()
	if w.compiled != nil {
		w.compiled.ApplyPeer(p)
	}
	return p
}

func (w *fixture) multiRail(names ...string) *Peer {
	return w.peer(Identity{MultiRail: true}, names...)
}

// router creates a multi-rail router with these NIDs and a route to o2ib.
func (w *fixture) router(names ...string) *Route {
	w.peer(Identity{MultiRail: true, RoutingEnabled: true}, names...)
	return w.route("o2ib", names[0])
}

func (w *fixture) route(net, gateway string) *Route {
	id, err := lnet.ParseNet(net)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &Route{}
	r.Init(id, w.peerNIs[gateway], 0, 0)
	w.view.Routing = w.view.Routing.With(r, 99)
	w.routes[gateway] = r
	w.apply()
	return r
}

// routed sets up a node with A1, a peer with these NIDs, and the given number of gateways
// g1 to g3.
func (w *fixture) routed(gateways int, remote ...string) {
	w.local("A1")
	w.multiRail(remote...)
	for _, g := range []string{"g1", "g2", "g3"}[:gateways] {
		w.peer(Identity{}, g)
		w.route("o2ib", g)
	}
}

func (w *fixture) net(name string) *Net {
	id, _ := lnet.ParseNet(name)
	return w.view.Local.Net(id)
}

func (w *fixture) peerNet(name string) *PeerNet {
	p := w.peerNIs[name]
	return p.Peer().Net(p.NID.Net())
}

// rule adds a rule. src, dst and rte are names or patterns.
func (w *fixture) rule(src, dst, rte string, priority uint32, place int) error {
	r := Rule{Src: w.pattern(src), Dst: w.pattern(dst), Rte: w.pattern(rte), Priority: priority}
	err := w.policies.Add(r, place)
	w.apply()
	return err
}

func (w *fixture) pattern(s string) lnet.Pattern {
	if text, ok := named[s]; ok {
		s = text
	}
	var d lnet.Pattern
	if err := d.UnmarshalText([]byte(s)); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// apply does what the node does after a change of rules, NIs or routes.
func (w *fixture) apply() {
	old := w.compiled
	w.compiled = w.policies.Compile(w.view.Local, w.view.Routing)
	w.compiled.ApplyLocal(w.view.Local)
	if w.compiled.SamePeers(old) {
		return
	}
	for _, p := range w.peerNIs {
		w.compiled.ApplyPeer(p.Peer())
	}
}

// to returns a request for a path to the NID from any source.
func (w *fixture) to(name string) Request { return Request{Dest: w.peerNIs[name], CPT: UnknownCPT} }

// send chooses and commits. It returns the names of the NI, the peer NI and the gateway, if
// any, or the error.
func (w *fixture) send(r Request) string {
	w.t.Helper()
	e := w.view.Explain(&r)
	d, err := w.view.Choose(&r)
	if d != e.Decision || (err == nil) != (e.Err == nil) {
		w.t.Errorf("chose %+v (%v), explained %+v (%v)", d, err, e.Decision, e.Err)
	}
	switch {
	case errors.Is(err, ErrUnreachable):
		return "unreachable"
	case errors.Is(err, ErrSource):
		return "no source"
	case err != nil:
		w.t.Fatal(err)
	}
	d.Commit()
	s := d.NI.Owner.(string) + " " + d.Final.Owner.(string)
	if d.Routed() {
		s += " " + d.Next.Owner.(string)
	}
	return s
}

func (w *fixture) sends(n int, r Request) []string {
	w.t.Helper()
	var all []string
	for range n {
		all = append(all, w.send(r))
	}
	return all
}

// twice returns s repeated once.
func twice(s ...string) []string { return slices.Concat(s, s) }
