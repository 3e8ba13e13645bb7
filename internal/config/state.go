package config

import (
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// State is what a node shall be. Diff tells two apart.
type State struct {
	// NIs are the interfaces to bring up, in order. None: lnetd finds one itself.
	NIs []NI
	// Parameters are those of the whole node.
	Parameters Parameters
	// Peers and Routes are in the order in which they are to be made.
	Peers  []Peer
	Routes []Route
	Policies
	// Routing says whether the node forwards, with Buffers.
	Routing Routing
	Buffers node.Buffers
	// Drivers are what was set of drivers by the type of their nets; those of which
	// nothing was are not there.
	Drivers map[lnet.NetType]Values
}

// NI is an interface to bring up.
type NI struct {
	Net lnet.Net
	// Device names the network device. If it is empty the one that owns NID's
	// address is taken, or, with no NID either, the driver's choice.
	Device string
	// NID, if not zero, is the NID that the interface must have.
	NID lnet.NID
	// Tunables are those that all drivers share; a zero or negative field
	// (PeerTimeout: negative) takes the driver's default.
	Tunables lnd.Tunables
	// Options are the driver's tunables for this NI alone.
	Options Values
	// CPTs are the CPU partitions for it, in order; nil: all.
	CPTs []int
	// Listed, if it is not nil, is what Device may stand for instead of one interface, until Settle.
	Listed *Listed
	// Own is the NID that the NI has; zero: it is not up.
	Own lnet.NID
	// Where is the place in the file, "name:line: key".
	Where string
}

// Order is the order of NIs: those of a net stand together, and the first of all has the
// node's primary NID, which peers know it by.
type Order []NI

// orderOf is the order that a node has its NIs in: the nets as their first NIs come.
func orderOf(nis []NI) Order {
	first := map[lnet.Net]int{}
	for k := range nis {
		if _, ok := first[nis[k].Net]; !ok {
			first[nis[k].Net] = k
		}
	}
	o := Order(slices.Clone(nis))
	slices.SortStableFunc(o, func(a, b NI) int { return first[a.Net] - first[b.Net] })
	return o
}

func (o Order) equal(p Order) bool {
	return slices.EqualFunc(o, p, func(a, b NI) bool { return a.key() == b.key() })
}

// Parameters are those of the node, and what is but shown beside them.
type Parameters struct {
	node.Parameters
	// RouterSensitivity is a percentage that has no effect.
	RouterSensitivity int
}

// Policies are the rules by which paths are chosen, in order.
type Policies struct {
	Rules      []selection.Rule
	TypedRules []selection.TypedRule
}

// String is what the operator calls the NI: "tcp(eth0)", or its NID or net.
func (n *NI) String() string {
	switch {
	case n.Device != "":
		return n.Net.String() + "(" + n.Device + ")"
	case !n.NID.IsZero():
		return n.NID.String()
	}
	return n.Net.String()
}

// place is where the NI stands in a file, or what it is called.
func (n *NI) place() string {
	if n.Where != "" {
		return n.Where
	}
	return "NI " + n.String()
}

// niKey is what makes two NIs one.
type niKey struct {
	net    lnet.Net
	device string
	nid    lnet.NID
}

func (n *NI) key() niKey { return niKey{n.Net, n.Device, n.NID} }

func (n *NI) equal(o *NI) bool {
	return n.key() == o.key() && !n.moved(o) && n.Tunables == o.Tunables && maps.Equal(n.Options, o.Options) && slices.Equal(n.CPTs, o.CPTs)
}

// Moved reports whether o is the NI n after its interface has got another address.
func (n *NI) Moved(o *NI) bool { return n.key() == o.key() && n.moved(o) }

// moved reports whether the interface of an NI has another address by now.
func (n *NI) moved(o *NI) bool { return n.Own != o.Own && !n.Own.IsZero() && !o.Own.IsZero() }

// setDriver makes v what is set of the drivers for a net type.
func (s *State) setDriver(t lnet.NetType, v Values) {
	if len(v) == 0 {
		return
	}
	drivers := maps.Clone(s.Drivers) // others may have copied the State
	if drivers == nil {
		drivers = map[lnet.NetType]Values{}
	}
	drivers[t] = v
	s.Drivers = drivers
}

// nids are all NIDs of the peer.
func (p *Peer) nids() []lnet.NID { return append([]lnet.NID{p.Primary}, p.Others...) }

// equal tells whether two entries make the same peer, wherever they stand and in
// whichever order they have its NIDs.
func (p *Peer) equal(o *Peer) bool {
	return p.Primary == o.Primary && p.SingleRail == o.SingleRail && p.Locked == o.Locked &&
		len(p.Others) == len(o.Others) && len(p.shared(o).Others) == len(p.Others)
}

// Equal tells whether two entries make the same peer, wherever they stand.
func (p *Peer) Equal(o *Peer) bool { return p.equal(o) }

// shared is the peer with those of its NIDs alone that another entry for it has too.
func (p *Peer) shared(o *Peer) Peer {
	out := *p
	out.Others = nil
	for _, nid := range p.Others {
		if slices.Contains(o.Others, nid) {
			out.Others = append(out.Others, nid)
		}
	}
	return out
}

// routeKey is what makes two routes one.
type routeKey struct {
	net     lnet.Net
	gateway lnet.NID
}

func (r *Route) key() routeKey { return routeKey{r.Net, r.Gateway} }

// equal tells whether two entries make the same route, wherever they stand.
func (r *Route) equal(o *Route) bool { return r.key() == o.key() && r.RouteOptions == o.RouteOptions }
