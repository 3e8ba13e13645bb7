package protocol

import "syscall"

// Segment is a piece of registered local memory, in the source of an RDMA.
type Segment struct {
	Addr   uint64
	Key    uint32 // lkey
	Length uint32
}

// Write is an RDMA WRITE. It gathers pieces of the source and fills a part of one fragment of the
// sink.
type Write struct {
	// Addr and Key describe the remote memory.
	Addr uint64
	Key  uint32
	// Length is the sum of the pieces, in bytes. First is the index in Batch.Pieces of the first
	// piece, and Pieces their number.
	Length        uint32
	First, Pieces int
}

// zipper combines the segments of a source and the fragments of a sink into RDMA WRITEs (o2iblnd
// 10.4). It can stop after each of them.
type zipper struct {
	source   []Segment
	sink     []Fragment
	key      uint32 // of the sink
	left     int    // bytes left
	from, to int    // offsets in the first segment and fragment
}

func newZipper(source []Segment, sink *Descriptor, n int) zipper {
	return zipper{source: source, sink: sink.Fragments, key: sink.Key, left: n}
}

// next appends one WRITE of up to gather pieces. It returns false if nothing is left.
func (z *zipper) next(b *Batch, gather int) bool {
	z.skip()
	if z.left == 0 {
		return false
	}
	f := &z.sink[0]
	w := Write{Addr: f.Addr + uint64(z.to), Key: z.key, First: len(b.Pieces)}
	for w.Pieces < gather && z.left > 0 && z.to < int(f.Length) {
		s := &z.source[0]
		n := min(int(s.Length)-z.from, int(f.Length)-z.to, z.left)
		if n > 0 {
			b.Pieces = append(b.Pieces, Segment{Addr: s.Addr + uint64(z.from), Key: s.Key, Length: uint32(n)})
			w.Pieces++
			w.Length += uint32(n)
			z.from, z.to, z.left = z.from+n, z.to+n, z.left-n
		}
		if z.from == int(s.Length) {
			z.source, z.from = z.source[1:], 0
		}
	}
	b.Writes = append(b.Writes, w)
	return true
}

// skip skips fragments that are full or empty.
func (z *zipper) skip() {
	for z.left > 0 && z.to == int(z.sink[0].Length) {
		z.sink, z.to = z.sink[1:], 0
	}
}

// count returns the number of WRITEs that are left.
func (z zipper) count(gather int) (writes int) {
	for z.skip(); z.left > 0; z.skip() {
		room, pieces := int(z.sink[0].Length)-z.to, 0
		for pieces < gather && z.left > 0 && room > 0 {
			n := min(int(z.source[0].Length)-z.from, room, z.left)
			if n > 0 {
				pieces++
				z.from, z.to, z.left, room = z.from+n, z.to+n, z.left-n, room-n
			}
			if z.from == int(z.source[0].Length) {
				z.source, z.from = z.source[1:], 0
			}
		}
		writes++
	}
	return writes
}

// length returns the sum of the segments' lengths, in bytes.
func length(source []Segment) (sum int) {
	for i := range source {
		sum += int(source[i].Length)
	}
	return sum
}

// planPut returns how many bytes a PUT transfers: as many as the sink has room for. If that is more
// than the source has, it returns a negative status for a PUT_DONE without data (o2iblnd 10.2).
func planPut(source []Segment, sink *Descriptor) int {
	n := sink.Length()
	if n > length(source) {
		return -int(syscall.EPROTO)
	}
	return n
}
