package lnet

// Limits and well-known numbers of the protocol (lnet-wire 9).
const (
	// MTU is the maximum payload of a message, in bytes.
	MTU = 1 << 20
	// MaxFragments is the maximum number of segments in the memory of one descriptor.
	MaxFragments = 256
	// Portals is the number of portals of a node. They are numbered 0 to Portals-1.
	Portals = 64
	// ReservedPortal is LNet's own portal, for pings and pushes.
	ReservedPortal = 0
	// PingMatchBits are the match bits of a ping (a GET) and of a push (a PUT) on
	// ReservedPortal (lnet-wire 7.1, 7.8).
	PingMatchBits = 1 << 63
	// PingPID is the destination PID of pings and pushes.
	PingPID = PIDLustre
	// InterfacesMin is the smallest value of lnet_interfaces_max.
	InterfacesMin = 16
	// InterfacesMax is the default of lnet_interfaces_max: the maximum number of entries in
	// a PingInfo, including loopback.
	InterfacesMax = 4096
	// HopsMax is the maximum hop count of a route.
	HopsMax = 255
)
