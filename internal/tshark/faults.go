package tshark

import (
	"encoding/binary"
	"math/bits"

	"github.com/lnetd/lnetd/internal/recording"
	"github.com/lnetd/lnetd/lnet"
)

// What tshark (4.0) is known to get wrong. It
//
//   - knows no acceptor request and no HELLO,
//   - knows no NOOP, and stops decoding the segment in which it meets one,
//   - knows no V1, no V4, and no sender of big-endian frames,
//   - swaps the bytes of both halves of an ACK's handle,
//   - takes the destination's PID for the source's and the other way round
//     (lnet-wire 4.2; in recordings both are 12345).
//
// The first three are never shown to it (shown), the others corrected
// (correct). Several messages in one segment are several elements of one
// packet in PDML, which is read for that reason: in its other formats their
// values run together, separated by commas.

// shown tells whether tshark can decode the unit.
func shown(u *recording.Unit) bool {
	return u.Kind == recording.KindMessage && u.Version.Framed() && !u.Version.LargeNIDs() &&
		u.Order == binary.ByteOrder(binary.LittleEndian)
}

// correct undoes the known faults in m.
func correct(m *Message) {
	h := &m.Header
	h.DestPID, h.SrcPID = h.SrcPID, h.DestPID
	if h.Type == lnet.MsgAck {
		h.Handle.Interface = bits.ReverseBytes64(h.Handle.Interface)
		h.Handle.Object = bits.ReverseBytes64(h.Handle.Object)
	}
}
