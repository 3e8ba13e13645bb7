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
// - It does not decode a NOOP, nor the rest of the segment that contains a NOOP.
//   - It does not decode V1, V4, and frames of big-endian senders.
//   - It swaps the bytes of both halves of the handle in an ACK.
//   - It swaps the PIDs of source and destination (lnet-wire 4.2; in recordings both are 12345).
//
// Because of the first three errors, units that tshark does not decode are not written to the capture
// file (isDecodable). The last two errors are corrected (correct). This package reads tshark's PDML
// format, in which several messages in one segment are several elements of a packet. In other formats
// the values of several messages are joined in one field.

// isDecodable reports whether tshark can decode a unit.
func isDecodable(u *recording.Unit) bool {
	return u.Kind == recording.KindMessage && u.Version.Framed() && !u.Version.LargeNIDs() &&
		u.Order == binary.ByteOrder(binary.LittleEndian)
}

// correct corrects tshark's known errors in a decoded message.
func correct(m *Message) {
	h := &m.Header
	h.DestPID, h.SrcPID = h.SrcPID, h.DestPID
	if h.Type == lnet.MsgAck {
		h.Handle.Interface = bits.ReverseBytes64(h.Handle.Interface)
		h.Handle.Object = bits.ReverseBytes64(h.Handle.Object)
	}
}
