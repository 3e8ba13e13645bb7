package lnet

import "fmt"

// HandleSize is the size of a Handle on the wire, in bytes.
//
//	 0                                8                                16
//	+--------------------------------+--------------------------------+
//	| interface_cookie               | object_cookie                  |
//	+--------------------------------+--------------------------------+
const HandleSize = 16

// Handle identifies a memory descriptor of the node that created it (lnet-wire 4.5). For
// other nodes it is 16 opaque bytes, which they send back unchanged. Both words are
// encoded as little-endian numbers; the handle of a big-endian node therefore has the same
// bytes when it is sent back.
type Handle struct {
	// Interface distinguishes incarnations of the node that owns the descriptor.
	Interface uint64
	// Object distinguishes descriptors of that node.
	Object uint64
}

// NoHandle is the handle that identifies no descriptor. In a PUT it means that the sender
// requests no ACK.
var NoHandle = Handle{Interface: ^uint64(0), Object: ^uint64(0)}

// IsNone reports whether h is NoHandle.
func (h Handle) IsNone() bool { return h == NoHandle }

// String returns text such as "17f1a2b300000001.11d", or "none" for NoHandle.
func (h Handle) String() string {
	if h.IsNone() {
		return "none"
	}
	return fmt.Sprintf("%x.%x", h.Interface, h.Object)
}
