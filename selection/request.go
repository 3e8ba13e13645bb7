package selection

import "github.com/lnetd/lnetd/lnet"

// View is what all choices at one time look at.
type View struct {
	Local *Local
	// Routing is nil if there are no routes.
	Routing *Routing
	// Distances is nil if the machine has but one NUMA node.
	Distances *Distances
	// NUMARange is the NUMA distance up to which NIs count as equally near.
	NUMARange uint32
	// DiscoveryOff says that this node does not discover peers.
	DiscoveryOff bool
	// AsymmetricRoutes says that single-hop routes stay in use when the
	// gateway is down on the remote net (avoid_asym_router_failure is 0).
	AsymmetricRoutes bool
}

// Request says what a path is wanted for. A message that is sent again, or was
// parked, asks with the same Source and Hop as the first time.
type Request struct {
	// Source is the local NID to send from; the zero NID or AnyNID: any.
	Source lnet.NID
	// Dest is the NID that the message is for. Its peer has been published.
	Dest *PeerNI
	// Hop is the NID from which the request came that an ACK or a REPLY
	// answers; nil for other messages.
	Hop *PeerNI

	// Response says that the message is an ACK or a REPLY.
	Response bool
	// Reserved says that it is a PUT or GET on portal 0, a ping or a push.
	Reserved bool
	// Recovery says that it is a recovery ping, for which only Dest will do.
	Recovery bool

	// Forward says that this node is but a router for the message.
	Forward bool
	// FromMultiRail says that the node that a forwarded message is from, by
	// the header, is multi-rail.
	FromMultiRail bool
	// From is the neighbour that handed over a forwarded message, which never
	// goes back there; else nil.
	From *PeerNI

	// DiscoveryNet is the net by which a gateway is pinged whose turn it is
	// with the router checker; else 0.
	DiscoveryNet lnet.Net

	// CPT is where the first byte to send lies, or else the sender runs;
	// UnknownCPT.
	CPT int
	// Affinity, if not nil, says that the memory is a GPU's, and how far the
	// NI is from that; 0 for all where drivers do not tell.
	Affinity func(i *NI) uint32
}

// Decision is a path. Its parts are those of the views that it was made from,
// which may have been replaced meanwhile.
type Decision struct {
	// NI is the local NI. Its NID is the header's source unless the message is
	// forwarded.
	NI *NI
	// Next is the peer NI that gets the message: Final, or a gateway. It is nil
	// for 0@lo.
	Next *PeerNI
	// Final has the NID that goes into the header as destination.
	Final *PeerNI
	// Route is the route that led to the gateway; nil for a direct path and
	// for a response, which goes back to the gateway that it came by.
	Route *Route

	local     *Local
	net       *Net
	routeTurn uint64
	// prefer says that NI is to serve Final from now on.
	prefer bool
}

// Loopback tells whether the message stays in this node.
func (d *Decision) Loopback() bool { return d.Next == nil }

// Routed tells whether the message goes through a gateway.
func (d *Decision) Routed() bool { return d.Next != nil && d.Next != d.Final }
