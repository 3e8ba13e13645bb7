package protocol

import "fmt"

// Version is a version of the protocol (o2iblnd 8).
type Version uint16

const (
	// V1 has fixed queues, and its NOOPs need credits.
	V1 Version = 0x11
	// V2 is the present version.
	V2 Version = 0x12
)

// Known tells whether v is a version of the protocol.
func (v Version) Known() bool { return v == V1 || v == V2 }

// String is "0x12".
func (v Version) String() string { return fmt.Sprintf("%#x", uint16(v)) }

const (
	// MaxMessage is the largest message, and the size of every receive buffer,
	// in bytes (o2iblnd 5.1).
	MaxMessage = 4096
	// MaxPayload is the most payload of an IMMEDIATE, in bytes (o2iblnd 10.1).
	MaxPayload = MaxMessage - immediateSize
	// MaxFragments is the most fragments that a descriptor may have.
	MaxFragments = 257
	// MaxOffered is the most fragments that are offered to a peer, and sent: some
	// accept no more, and others write behind an array (o2iblnd 15, 18).
	MaxOffered = 256
	// MaxDepth is the largest queue depth.
	MaxDepth = 255
	// MinDepth is the smallest queue depth that is offered: with less a kernel may
	// return credits without end (o2iblnd 9.5, 18).
	MinDepth = 4
	// V1Depth is the queue depth of V1.
	V1Depth = 8
)

// noopBuffers is how many receive buffers there are for NOOPs, and so how many of
// them may be under way in V2 (o2iblnd 9.2, 9.5).
const noopBuffers = 2

// ReceiveBuffers is how many buffers of MaxMessage bytes a side posts before it
// connects or accepts with a queue depth (o2iblnd 9.2): for what consumes credits,
// for the answers to its own requests, and in V2 for NOOPs.
func ReceiveBuffers(v Version, depth int) int {
	if v == V1 {
		return 2 * depth
	}
	return 2*depth + noopBuffers
}
