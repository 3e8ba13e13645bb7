package protocol

import (
	"strconv"

	"github.com/lnetd/lnetd/lnet"
)

// Version is a version of the protocol. Both ends of a connection agree on it with their HELLOs (socklnd 4,
// 20.1).
type Version uint32

// The versions that kernels support. Kernels use V3 over IPv4 and V4 over IPv6. V1 and V2 are used by
// peers older than Lustre 2.0.
const (
	V1 Version = 1 // LNet messages without frames, always little-endian
	V2 Version = 2 // frames, checksums, acknowledgements of single zero-copy requests
	V3 Version = 3 // acknowledgements of several requests, keepalives
	V4 Version = 4 // large NIDs
)

// Valid reports whether v is one of V1 to V4.
func (v Version) Valid() bool { return v >= V1 && v <= V4 }

// Framed reports whether a Frame precedes each message. This is so in all versions except V1.
func (v Version) Framed() bool { return v >= V2 }

// LargeNIDs reports whether the NIDs in HELLOs and LNet headers have 20 bytes.
func (v Version) LargeNIDs() bool { return v >= V4 }

// HeaderSize returns the size in bytes of the LNet header of a message, without the Frame before
// it.
func (v Version) HeaderSize() int {
	if v.LargeNIDs() {
		return lnet.HeaderNID16Size
	}
	return lnet.HeaderNID4Size
}

// Overhead returns the number of bytes of a message besides its payload: the Frame and the LNet
// header.
func (v Version) Overhead() int {
	if !v.Framed() {
		return v.HeaderSize()
	}
	return FrameSize + v.HeaderSize()
}

// AppendHeader appends h, encoded in the layout of v. If the layout cannot carry a NID of h, it returns b
// unchanged and an error.
func (v Version) AppendHeader(b []byte, h *lnet.Header) ([]byte, error) {
	if v.LargeNIDs() {
		return h.AppendNID16(b), nil
	}
	return h.AppendNID4(b)
}

// DecodeHeader decodes the first HeaderSize bytes of b into h. On an error h is unchanged.
func (v Version) DecodeHeader(b []byte, h *lnet.Header) error {
	if v.LargeNIDs() {
		return h.DecodeNID16(b)
	}
	return h.DecodeNID4(b)
}

// String returns a name such as "v3", for unsupported versions too.
func (v Version) String() string { return "v" + strconv.FormatUint(uint64(v), 10) }
