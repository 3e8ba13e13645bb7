package selection

import "github.com/lnetd/lnetd/lnet"

// View is the input of a choice that is common to all messages.
type View struct {
	Local *Local
	// Routing is the route table, or nil without routes.
	Routing *Routing
	// Distances is nil if the machine has only one NUMA node.
	Distances *Distances
	// NUMARange is the NUMA distance up to which all NIs count as equally near.
	NUMARange uint32
	// DiscoveryOff reports whether discovery is off on this node.
	DiscoveryOff bool
	// AsymmetricRoutes means that single-hop routes remain usable if the gateway is down on
	// the remote net (avoid_asym_router_failure is 0).
	AsymmetricRoutes bool
}

// Request describes the message that a path is needed for. A message that is resent, or was
// parked, must use the same Source and Hop as the first time.
type Request struct {
	// Source is the local NID to send from. The zero NID and AnyNID mean any.
	Source lnet.NID
	// Dest is the peer NI that the message is for. Its peer must have been published.
	Dest *PeerNI
	// Hop is the peer NI that delivered the request, if the message is its ACK or REPLY;
	// otherwise nil.
	Hop *PeerNI

	// Response reports whether the message is an ACK or a REPLY.
	Response bool
	// Reserved reports whether it is a PUT or GET on portal 0, which is a ping or a push.
	Reserved bool
	// Recovery reports whether it is a recovery ping, which must be sent to Dest.
	Recovery bool

	// Forward reports whether this node forwards the message as a router.
	Forward bool
	// FromMultiRail reports whether the source node of a forwarded message, by its header,
	// is multi-rail.
	FromMultiRail bool
	// From is the neighbour that delivered a forwarded message, which is never sent back
	// there; otherwise nil.
	From *PeerNI

	// DiscoveryNet is the net over which the router checker pings a gateway; otherwise 0.
	DiscoveryNet lnet.Net

	// CPT is the CPU partition of the first byte to send, or that of the sender if this is
	// unknown, or UnknownCPT.
	CPT int
	// Affinity, if not nil, means that the memory belongs to a GPU. It returns the distance
	// of an NI from that GPU, or 0 for all NIs if the drivers do not report it.
	Affinity func(i *NI) uint32
}

// Decision is a path. It refers to parts of the view that it was made from, which may have
// been replaced since.
type Decision struct {
	// NI is the local NI. Its NID is the source in the header, unless the message is
	// forwarded.
	NI *NI
	// Next is the peer NI to which the message is sent: Final or a gateway. It is nil for
	// 0@lo.
	Next *PeerNI
	// Final is the peer NI whose NID is the destination in the header.
	Final *PeerNI
	// Route is the route through the gateway. It is nil for a direct path, and for a
	// response, which goes back through the gateway that delivered the request.
	Route *Route

	local     *Local
	net       *Net
	routeTurn uint64
	// prefer means that Commit makes NI the preferred NI of Final.
	prefer bool
}

// Loopback reports whether the message stays in this node.
func (d *Decision) Loopback() bool { return d.Next == nil }

// Routed reports whether the message goes through a gateway.
func (d *Decision) Routed() bool { return d.Next != nil && d.Next != d.Final }
