package tshark

import (
	"encoding/binary"
	"math/bits"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
)

// Known errors of tshark 4.0:
//
//   - It does not decode acceptor requests and HELLOs.
//   - It does not decode a NOOP, and stops decoding the segment that contains one.
//   - It does not decode V1, V4, and frames of big-endian senders.
//   - It swaps the bytes of both halves of the handle in an ACK.
//   - It swaps the PIDs of source and destination (lnet-wire 4.2; in recordings both are 12345).
//
// Units of the first three kinds are not written to the capture file (shown). The last two are corrected
// (correct). Several messages in one segment become several elements of one packet in PDML. In tshark's
// other formats their values run together, separated by commas, so this package reads PDML.

// shown reports whether tshark can decode the unit.
func shown(u *recording.Unit) bool {
	return u.Kind == recording.KindMessage && u.Version.Framed() && !u.Version.LargeNIDs() &&
		u.Order == binary.ByteOrder(binary.LittleEndian)
}

// correct undoes tshark's known errors in m.
func correct(m *Message) {
	h := &m.Header
	h.DestPID, h.SrcPID = h.SrcPID, h.DestPID
	if h.Type == lnet.MsgAck {
		h.Handle.Interface = bits.ReverseBytes64(h.Handle.Interface)
		h.Handle.Object = bits.ReverseBytes64(h.Handle.Object)
	}
}
