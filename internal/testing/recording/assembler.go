package recording

import "slices"

// assembler puts the segments of one direction in order. Sequence numbers wrap around, so only their
// difference is compared.
type assembler struct {
	started bool
	first   uint32 // sequence number of the first byte
	next    uint32 // of the next expected byte
	early   []segment
	sawFIN  bool
	finSeq  uint32
	end     End
}

// start sets the sequence number of the SYN.
func (a *assembler) start(seq uint32) {
	if !a.started {
		a.started, a.first, a.next = true, seq+1, seq+1
	}
}

// add adds a segment and returns the bytes that are in order now. It returns none if the segment is early
// or a retransmission.
func (a *assembler) add(s segment) []byte {
	if s.fin {
		a.sawFIN, a.finSeq = true, s.seq+uint32(len(s.payload))
	}
	var out []byte
	if len(s.payload) > 0 {
		a.early = append(a.early, s)
		out = a.drain()
	}
	if a.sawFIN && a.next == a.finSeq && a.end == EndOpen {
		a.end = EndFIN
	}
	if s.rst {
		a.end = EndRST
	}
	return out
}

// drain returns the bytes of early segments that are in order now.
func (a *assembler) drain() []byte {
	var out []byte
	for {
		i := slices.IndexFunc(a.early, func(s segment) bool { return int32(s.seq-a.next) <= 0 })
		if i < 0 {
			return out
		}
		s := a.early[i]
		a.early = slices.Delete(a.early, i, i+1)
		known := a.next - s.seq // bytes of s that were already added
		if known < uint32(len(s.payload)) {
			out = append(out, s.payload[known:]...)
			a.next += uint32(len(s.payload)) - known
		}
	}
}

// missing reports whether there is a gap before bytes that were recorded.
func (a *assembler) missing() bool {
	return len(a.early) > 0 || a.sawFIN && int32(a.finSeq-a.next) > 0
}
