package protocol

import (
	"strconv"

	"github.com/lnetd/lnetd/lnet"
)

// Version is the protocol version that both ends of a connection agreed on in their HELLOs (socklnd
// 4, 20.1).
type Version uint32

// The versions that kernels support. They use V3 over IPv4 and V4 over IPv6. V1 and V2 are used by
// peers older than Lustre 2.0.
const (
	V1 Version = 1 // bare LNet messages, always little-endian
	V2 Version = 2 // framing, checksums, single zero-copy acknowledgements
	V3 Version = 3 // multiple acknowledgements, keepalives
	V4 Version = 4 // large NIDs
)

// Valid reports whether v is one of V1 to V4.
func (v Version) Valid() bool { return v >= V1 && v <= V4 }

// Framed reports whether each message starts with a Frame (all versions but V1).
func (v Version) Framed() bool { return v >= V2 }

// LargeNIDs reports whether HELLO and LNet headers carry 20-byte NIDs.
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

// AppendHeader appends h in the layout of v. It returns an error and an unchanged b if the layout
// cannot carry a NID of h.
func (v Version) AppendHeader(b []byte, h *lnet.Header) ([]byte, error) {
	if v.LargeNIDs() {
		return h.AppendNID16(b), nil
	}
	return h.AppendNID4(b)
}

// DecodeHeader reads h from the first HeaderSize bytes of b. On an error h
// is unchanged.
func (v Version) DecodeHeader(b []byte, h *lnet.Header) error {
	if v.LargeNIDs() {
		return h.DecodeNID16(b)
	}
	return h.DecodeNID4(b)
}

// String returns a name such as "v3", for unsupported versions too.
func (v Version) String() string { return "v" + strconv.FormatUint(uint64(v), 10) }
