package lnet

// Limits and well-known numbers that every node shares (lnet-wire 9).
const (
	// MTU is the most payload that one message carries, in bytes.
	MTU = 1 << 20
	// MaxFragments is the most pieces that the memory of one descriptor may
	// consist of.
	MaxFragments = 256
	// Portals is the number of portals of a node: 0 to Portals-1.
	Portals = 64
	// ReservedPortal belongs to LNet itself: pings and pushes.
	ReservedPortal = 0
	// PingMatchBits are the match bits of a ping (a GET) and of a push (a
	// PUT) on ReservedPortal (lnet-wire 7.1, 7.8).
	PingMatchBits = 1 << 63
	// PingPID is the PID that pings and pushes go to.
	PingPID = PIDLustre
	// InterfacesMin is the smallest value of lnet_interfaces_max.
	InterfacesMin = 16
	// InterfacesMax is the default of lnet_interfaces_max: the most entries
	// that a PingInfo may have, loopback included.
	InterfacesMax = 4096
	// HopsMax is the largest number of hops that a route may say.
	HopsMax = 255
)
