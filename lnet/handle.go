package lnet

import "fmt"

// HandleSize is the size of a Handle on the wire, in bytes.
//
//	 0                                8                                16
//	+--------------------------------+--------------------------------+
//	| interface_cookie               | object_cookie                  |
//	+--------------------------------+--------------------------------+
const HandleSize = 16

// Handle names a memory descriptor of the node that made it (lnet-wire 4.5).
// For everybody else it is 16 opaque bytes, sent back bit by bit; both words
// are read and written as little-endian numbers, so that this holds for
// handles of big-endian nodes too.
type Handle struct {
	// Interface tells lives of the owner apart.
	Interface uint64
	// Object tells the owner's descriptors apart.
	Object uint64
}

// NoHandle in a PUT asks for no ACK.
var NoHandle = Handle{Interface: ^uint64(0), Object: ^uint64(0)}

// IsNone tells whether h is NoHandle.
func (h Handle) IsNone() bool { return h == NoHandle }

// String is "17f1a2b300000001.11d", or "none".
func (h Handle) String() string {
	if h.IsNone() {
		return "none"
	}
	return fmt.Sprintf("%x.%x", h.Interface, h.Object)
}
