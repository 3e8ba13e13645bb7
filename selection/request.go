package selection

import "github.com/lnetd/lnetd/lnet"

// View holds what a choice depends on that is the same for all messages.
type View struct {
	Local *Local
	// Routing is the route table. It is nil if there are no routes.
	Routing *Routing
	// Distances is nil if the machine has only one NUMA node.
	Distances *Distances
	// NUMARange is the NUMA distance up to which all NIs count as equally near.
	NUMARange uint32
	// DiscoveryOff reports whether discovery is off on this node.
	DiscoveryOff bool
	// AsymmetricRoutes means that a single-hop route remains usable if its gateway is down on
	// the remote net (avoid_asym_router_failure is 0).
	AsymmetricRoutes bool
}

// Request describes a message for which a path is needed. When a message is sent again, or
// after it was parked, Source and Hop must be the same as before.
type Request struct {
	// Source is the local NID to send from. The zero NID and AnyNID mean any.
	Source lnet.NID
	// Dest is the peer NI that the message is for. It must belong to a published Peer.
	Dest *PeerNI
	// Hop is the peer NI that delivered the request, if the message is the ACK or REPLY to
	// it. Otherwise it is nil.
	Hop *PeerNI

	// Response reports whether the message is an ACK or a REPLY.
	Response bool
	// Reserved reports whether the message is a PUT or GET on portal 0, which is a ping or a
	// push.
	Reserved bool
	// Recovery reports whether the message is a recovery ping, which must be sent to Dest and
	// not to another NID of the peer.
	Recovery bool

	// Forward reports whether this node forwards the message as a router.
	Forward bool
	// FromMultiRail reports whether the node that sent a forwarded message is multi-rail. It
	// is the node with the source NID in the header.
	FromMultiRail bool
	// From is the neighbour that delivered a forwarded message; the message is never sent
	// back there. Otherwise From is nil.
	From *PeerNI

	// DiscoveryNet is the net over which the message must be sent, if it is the router
	// checker's ping to a gateway. Otherwise it is 0.
	DiscoveryNet lnet.Net

	// CPT is the CPU partition nearest to the first byte to send. If that is unknown, it is
	// the partition on which the caller runs, or UnknownCPT.
	CPT int
	// Affinity is set if the memory of the message belongs to a GPU. It returns the distance
	// of an NI from that GPU. If the drivers do not report distances, it returns 0 for all
	// NIs.
	Affinity func(i *NI) uint32
}

// Decision is a path that was chosen for a message. It refers to parts of the View that
// was used, which may have been replaced since.
type Decision struct {
	// NI is the local NI. Its NID is the source in the header, unless the message is
	// forwarded.
	NI *NI
	// Next is the peer NI to which the message is sent directly: Final or the NI of a
	// gateway. It is nil for 0@lo.
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
