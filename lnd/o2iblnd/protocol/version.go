package protocol

import "fmt"

// Version is a version of the protocol (o2iblnd 8).
type Version uint16

const (
	// V1 has queues of a fixed size, and its NOOPs need credits.
	V1 Version = 0x11
	// V2 is the current version.
	V2 Version = 0x12
)

// Known reports whether v is a version of the protocol.
func (v Version) Known() bool { return v == V1 || v == V2 }

// String returns the number, such as "0x12".
func (v Version) String() string { return fmt.Sprintf("%#x", uint16(v)) }

const (
	// MaxMessage is the length of the largest message and of every receive buffer, in bytes
	// (o2iblnd 5.1).
	MaxMessage = 4096
	// MaxPayload is the largest payload of an IMMEDIATE, in bytes (o2iblnd 10.1).
	MaxPayload = MaxMessage - immediateSize
	// MaxFragments is the maximum number of fragments in a descriptor.
	MaxFragments = 257
	// MaxOffered is the maximum number of fragments that this node offers or sends. Some peers do not accept
	// more, and others write beyond the end of an array (o2iblnd 15, 18).
	MaxOffered = 256
	// MaxDepth is the largest queue depth.
	MaxDepth = 255
	// MinDepth is the smallest queue depth that this node offers. With a smaller one, a kernel may return
	// credits endlessly (o2iblnd 9.5, 18).
	MinDepth = 4
	// V1Depth is the queue depth of V1.
	V1Depth = 8
)

// noopBuffers is the number of receive buffers for NOOPs in V2, and so the maximum number of NOOPs that are
// posted and have not completed (o2iblnd 9.2, 9.5).
const noopBuffers = 2

// ReceiveBuffers returns the number of receive buffers that a side posts before it connects or accepts (o2iblnd
// 9.2). Each has MaxMessage bytes. They are for messages that use credits, for answers to this side's requests
// and, in V2, for NOOPs.
func ReceiveBuffers(v Version, depth int) int {
	if v == V1 {
		return 2 * depth
	}
	return 2*depth + noopBuffers
}
