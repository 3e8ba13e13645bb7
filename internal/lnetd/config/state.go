package config

import (
	"iter"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// State is the configuration that a node has or must reach. Diff compares two States.
type State struct {
	// NIs are the interfaces to bring up, in order. If the list is empty when lnetd starts, lnetd
	// chooses an interface.
	NIs []NI
	// Parameters are the parameters of the whole node.
	Parameters Parameters
	// Peers and Routes are the configured ones. Peers are created before routes.
	Peers  []Peer
	Routes []Route
	Policies
	// Routing is whether the node is a router. Buffers are the numbers of its router buffers.
	Routing Routing
	Buffers node.Buffers
	// Drivers holds driver options by net type. A net type without options is absent.
	Drivers map[lnet.NetType]Values
}

// NI is an interface to bring up.
type NI struct {
	Net lnet.Net
	// Device is the name of the network device. If it is empty, the NI uses the device that has the
	// address in NID. If NID is zero too, the driver chooses the device.
	Device string
	// NID, if not zero, is the NID that the interface must have.
	NID lnet.NID
	// Tunables are the tunables that NIs of all drivers have. A zero field means the driver's
	// default, except for PeerTimeout, for which a negative value means it.
	Tunables lnd.Tunables
	// Options are the LND tunables that are set for this NI. Others have the driver's defaults.
	Options lnd.Values
	// Proxy is the name of the proxies that may serve the NI, if its driver is in other processes. Empty means
	// any proxy.
	Proxy string
	// CPTs are the CPU partitions that the NI uses, sorted. Nil means all partitions.
	CPTs []int
	// Listed, if not nil, is a second meaning of the numbers after Device. Settle decides which one
	// applies.
	Listed *Listed
	// Own is the NID that the NI has on the running node. It is zero until the NI is up.
	Own lnet.NID
	// Where is the position in the file, "name:line: key".
	Where string
}

// Order is the order in which a node has its NIs. NIs on the same net are adjacent. The NID of the first
// NI is the node's primary NID, which identifies the node to peers.
type Order []NI

// orderOf returns the order in which a node has the given NIs if they are added one after the other. The
// nets are in the order of their first NIs.
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

// Parameters are the parameters of the node, and one that has no effect.
type Parameters struct {
	node.Parameters
	// RouterSensitivity is a percentage. It has no effect and is only shown.
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

// place returns the NI's position in the file or, if it is not from a file, its name.
func (n *NI) place() string {
	if n.Where != "" {
		return n.Where
	}
	return "NI " + n.String()
}

// niKey identifies an NI by its configured names.
type niKey struct {
	net    lnet.Net
	device string
	nid    lnet.NID
}

func (n *NI) key() niKey { return niKey{n.Net, n.Device, n.NID} }

func (n *NI) equal(o *NI) bool {
	return n.key() == o.key() && !n.moved(o) && n.Tunables == o.Tunables && maps.Equal(n.Options, o.Options) && n.Proxy == o.Proxy && slices.Equal(n.CPTs, o.CPTs)
}

// Moved reports whether n and o are the same NI before and after its interface got another address, so
// that its NID changes although its configuration does not.
func (n *NI) Moved(o *NI) bool { return n.key() == o.key() && n.moved(o) }

// moved reports whether both NIs have a NID from being up, and these NIDs differ.
func (n *NI) moved(o *NI) bool { return n.Own != o.Own && !n.Own.IsZero() && !o.Own.IsZero() }

// setDriver sets the options of the driver for a net type to v. If v is empty, it changes nothing.
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

// nids returns all NIDs of the peer in a new slice.
func (p *Peer) nids() []lnet.NID { return append([]lnet.NID{p.Primary}, p.Others...) }

// eachNID returns an iterator over all NIDs of the peer, the primary one first.
func (p *Peer) eachNID() iter.Seq[lnet.NID] {
	return func(yield func(lnet.NID) bool) {
		if !yield(p.Primary) {
			return
		}
		for _, nid := range p.Others {
			if !yield(nid) {
				return
			}
		}
	}
}

// hasAny reports whether is returns true for a NID of the peer.
func (p *Peer) hasAny(is func(lnet.NID) bool) bool {
	return is(p.Primary) || slices.ContainsFunc(p.Others, is)
}

// equal reports whether two entries describe the same peer. Their positions and the order of NIDs
// are ignored.
func (p *Peer) equal(o *Peer) bool {
	return p.Primary == o.Primary && p.SingleRail == o.SingleRail && p.Locked == o.Locked &&
		len(p.Others) == len(o.Others) &&
		!slices.ContainsFunc(p.Others, func(nid lnet.NID) bool { return !slices.Contains(o.Others, nid) })
}

// Equal reports whether two entries describe the same peer. It ignores their positions in files and the
// order of NIDs.
func (p *Peer) Equal(o *Peer) bool { return p.equal(o) }

// shared returns p without those NIDs, other than the primary one, that o does not have.
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

// equal reports whether two entries describe the same route. It ignores their positions in files.
func (r *Route) equal(o *Route) bool { return r.key() == o.key() && r.RouteOptions == o.RouteOptions }
