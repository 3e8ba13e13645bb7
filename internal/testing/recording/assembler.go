package recording

import "slices"

// assembler puts the TCP segments of one direction in order. Sequence numbers wrap around, so it
// compares only differences of them.
type assembler struct {
	started    bool
	first      uint32 // sequence number of the first byte
	next       uint32 // sequence number of the next expected byte
	outOfOrder []segment
	sawFIN     bool
	finSeq     uint32
	end        End
}

// start records the sequence number of the SYN. It has no effect for a retransmitted SYN.
func (a *assembler) start(seq uint32) {
	if !a.started {
		a.started, a.first, a.next = true, seq+1, seq+1
	}
}

// add adds a segment and returns the bytes of the stream that have become complete in order. It returns
// nil if an earlier segment is missing, or if the segment is a retransmission.
func (a *assembler) add(s segment) []byte {
	if s.fin {
		a.sawFIN, a.finSeq = true, s.seq+uint32(len(s.payload))
	}
	var out []byte
	if len(s.payload) > 0 {
		a.outOfOrder = append(a.outOfOrder, s)
		out = a.takeInOrder()
	}
	if a.sawFIN && a.next == a.finSeq && a.end == EndOpen {
		a.end = EndFIN
	}
	if s.rst {
		a.end = EndRST
	}
	return out
}

// takeInOrder removes segments that continue the stream from outOfOrder, and returns their bytes.
func (a *assembler) takeInOrder() []byte {
	var out []byte
	for {
		i := slices.IndexFunc(a.outOfOrder, func(s segment) bool { return int32(s.seq-a.next) <= 0 })
		if i < 0 {
			return out
		}
		s := a.outOfOrder[i]
		a.outOfOrder = slices.Delete(a.outOfOrder, i, i+1)
		known := a.next - s.seq // number of bytes of s that were added before
		if known < uint32(len(s.payload)) {
			out = append(out, s.payload[known:]...)
			a.next += uint32(len(s.payload)) - known
		}
	}
}

// missing reports whether bytes are missing before later bytes or a FIN that were recorded.
func (a *assembler) missing() bool {
	return len(a.outOfOrder) > 0 || a.sawFIN && int32(a.finSeq-a.next) > 0
}
