package protocol

import "syscall"

// Segment is a piece of registered local memory, which the device reads for an RDMA.
type Segment struct {
	Addr   uint64
	Key    uint32 // lkey
	Length uint32
}

// Write is an RDMA WRITE. It reads pieces of the source and fills one fragment of the sink, or a part of it.
type Write struct {
	// Addr and Key describe the remote memory.
	Addr uint64
	Key  uint32
	// Length is the sum of the pieces' lengths, in bytes. First is the index of the first piece in
	// Batch.Pieces, and Pieces the number of pieces.
	Length        uint32
	First, Pieces int
}

// zipper divides a transfer into RDMA WRITEs, each from several segments of the source to one fragment of the
// sink (o2iblnd 10.4). Its state is what is still to be written.
type zipper struct {
	source   []Segment
	sink     []Fragment
	key      uint32 // of the sink
	left     int    // bytes still to be written
	from, to int    // offsets in source[0] and sink[0]
}

func newZipper(source []Segment, sink *Descriptor, n int) zipper {
	return zipper{source: source, sink: sink.Fragments, key: sink.Key, left: n}
}

// next appends the next WRITE to the batch, with up to gather pieces. It returns false if nothing is left to
// write.
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

// skip removes fragments at the beginning of the sink that are full or empty.
func (z *zipper) skip() {
	for z.left > 0 && z.to == int(z.sink[0].Length) {
		z.sink, z.to = z.sink[1:], 0
	}
}

// count returns the number of WRITEs that next will produce.
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

// planPut returns how many bytes a PUT transfers, which is the length of sink. If source has fewer bytes, it
// returns the negative status for a PUT_DONE without data (o2iblnd 10.2).
func planPut(source []Segment, sink *Descriptor) int {
	n := sink.Length()
	if n > length(source) {
		return -int(syscall.EPROTO)
	}
	return n
}
