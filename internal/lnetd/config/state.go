package config

import (
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// State is the configuration that a node has or must reach. Diff compares two States.
type State struct {
	// NIs are the interfaces to bring up, in order. If the list is empty, lnetd chooses one.
	NIs []NI
	// Parameters are those of the whole node.
	Parameters Parameters
	// Peers and Routes are created in this order.
	Peers  []Peer
	Routes []Route
	Policies
	// Routing reports whether the node forwards, with Buffers.
	Routing Routing
	Buffers node.Buffers
	// Drivers holds driver options by net type. A net type without options is absent.
	Drivers map[lnet.NetType]Values
}

// NI is an interface to bring up.
type NI struct {
	Net lnet.Net
	// Device names the network device. If it is empty, the device with NID's address is used or,
	// without a NID, the driver's choice.
	Device string
	// NID, if not zero, is the NID that the interface must have.
	NID lnet.NID
	// Tunables are those that all drivers share. A zero field, or a negative PeerTimeout, means
	// the driver's default.
	Tunables lnd.Tunables
	// Options are the driver's own tunables that this NI sets.
	Options lnd.Values
	// CPTs are the CPU partitions for it, sorted. Nil means all.
	CPTs []int
	// Listed, if not nil, is a second meaning of Device, until Settle resolves it.
	Listed *Listed
	// Own is the NID that the NI has. It is zero while the NI is not up.
	Own lnet.NID
	// Where is the position in the file, "name:line: key".
	Where string
}

// Order is the order of NIs. NIs of one net are adjacent. The first NI has the node's primary
// NID, which identifies the node to peers.
type Order []NI

// orderOf returns the order in which a node has its NIs. Nets are in the order of their first
// NIs.
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

// Parameters are those of the node, and one that is only shown.
type Parameters struct {
	node.Parameters
	// RouterSensitivity is a percentage without effect.
	RouterSensitivity int
}

// Policies are the rules for path selection, in order.
type Policies struct {
	Rules      []selection.Rule
	TypedRules []selection.TypedRule
}

// String returns the operator's name for the NI: "tcp(eth0)", or its NID or net.
func (n *NI) String() string {
	switch {
	case n.Device != "":
		return n.Net.String() + "(" + n.Device + ")"
	case !n.NID.IsZero():
		return n.NID.String()
	}
	return n.Net.String()
}

// place returns the NI's position in the file, or its name.
func (n *NI) place() string {
	if n.Where != "" {
		return n.Where
	}
	return "NI " + n.String()
}

// niKey identifies an NI.
type niKey struct {
	net    lnet.Net
	device string
	nid    lnet.NID
}

func (n *NI) key() niKey { return niKey{n.Net, n.Device, n.NID} }

func (n *NI) equal(o *NI) bool {
	return n.key() == o.key() && !n.moved(o) && n.Tunables == o.Tunables && maps.Equal(n.Options, o.Options) && slices.Equal(n.CPTs, o.CPTs)
}

// Moved reports whether o is the same NI as n after its interface got another address.
func (n *NI) Moved(o *NI) bool { return n.key() == o.key() && n.moved(o) }

// moved reports whether both NIs are up with different addresses.
func (n *NI) moved(o *NI) bool { return n.Own != o.Own && !n.Own.IsZero() && !o.Own.IsZero() }

// setDriver sets the options of the driver for a net type, unless v is empty.
func (s *State) setDriver(t lnet.NetType, v Values) {
	if len(v) == 0 {
		return
	}
	drivers := maps.Clone(s.Drivers) // the map may be shared with a copy of the State
	if drivers == nil {
		drivers = map[lnet.NetType]Values{}
	}
	drivers[t] = v
	s.Drivers = drivers
}

// nids returns all NIDs of the peer.
func (p *Peer) nids() []lnet.NID { return append([]lnet.NID{p.Primary}, p.Others...) }

// equal reports whether two entries describe the same peer. Their positions and the order of NIDs
// are ignored.
func (p *Peer) equal(o *Peer) bool {
	return p.Primary == o.Primary && p.SingleRail == o.SingleRail && p.Locked == o.Locked &&
		len(p.Others) == len(o.Others) && len(p.shared(o).Others) == len(p.Others)
}

// Equal reports whether two entries describe the same peer, wherever they are in files.
func (p *Peer) Equal(o *Peer) bool { return p.equal(o) }

// shared returns the peer with only those NIDs that o has too.
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

// routeKey identifies a route.
type routeKey struct {
	net     lnet.Net
	gateway lnet.NID
}

func (r *Route) key() routeKey { return routeKey{r.Net, r.Gateway} }

// equal reports whether two entries describe the same route, wherever they are in files.
func (r *Route) equal(o *Route) bool { return r.key() == o.key() && r.RouteOptions == o.RouteOptions }
