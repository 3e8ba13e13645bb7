package simulation

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// Initial content of memory. Guard bytes are before and after a region and between its pieces, blank
// bytes inside the pieces.
const (
	guardByte = 0xa5
	blankByte = 0x5c

	guardSize = 32 // bytes before and after a region
	gapSize   = 8  // bytes between two pieces
)

var (
	guards = bytes.Repeat([]byte{guardByte}, guardSize)
	blanks = bytes.Repeat([]byte{blankByte}, 4096)
)

// region is the memory of an MD or a buffer: n bytes in one or more pieces, with guard bytes around each
// piece.
type region struct {
	backing []byte
	pieces  []memory.Segment
	n       int
}

// Memory is a pool of memory that several Runs share. The zero value is ready to use. It is safe for
// concurrent use.
type Memory struct {
	pools [32]sync.Pool // index: binary logarithm of the size
}

// region returns n blank bytes in the given number of pieces.
func (m *Memory) region(n, pieces int) *region {
	pieces = max(1, min(pieces, n))
	total := 2*guardSize + n + (pieces-1)*gapSize
	class := bits.Len(uint(total - 1))
	backing, _ := m.pools[class].Get().(*[]byte)
	if backing == nil {
		b := make([]byte, 1<<class)
		backing = &b
	}
	r := &region{backing: (*backing)[:total], n: n, pieces: make([]memory.Segment, 0, pieces)}
	copy(r.backing, guards)
	at, left := guardSize, n
	for k := range pieces {
		size := left / (pieces - k)
		if k < pieces-1 {
			size = max(1, size/2+(k*7+3)%(size+1))
			size = min(size, left-(pieces-1-k))
		}
		b := r.backing[at : at+size : at+size]
		for c := b; len(c) > 0; {
			c = c[copy(c, blanks):]
		}
		r.pieces = append(r.pieces, memory.Segment{Bytes: b})
		at += size
		left -= size
		if k < pieces-1 {
			at += copy(r.backing[at:at+gapSize], guards)
		}
	}
	copy(r.backing[at:], guards)
	return r
}

// release returns a region to the pools. The caller must not use it afterwards.
func (m *Memory) release(r *region) {
	b := r.backing[:cap(r.backing)]
	m.pools[bits.Len(uint(len(b)-1))].Put(&b)
	r.backing, r.pieces = nil, nil
}

// each calls f with each piece of the n bytes at off and the offset of the piece, until f returns false.
func (r *region) each(off, n int, f func(b []byte, at int) bool) {
	start := 0
	for _, p := range r.pieces {
		from, to := max(off, start), min(off+n, start+len(p.Bytes))
		if from < to && !f(p.Bytes[from-start:to-start], from) {
			return
		}
		start += len(p.Bytes)
	}
}

// fill writes the beginning of a stream to the whole region.
func (r *region) fill(s stream) {
	r.each(0, r.n, func(b []byte, at int) bool { s.fill(b, at); return true })
}

// checkStream returns an error if the n bytes at off differ from the bytes of stream s that begin at
// offset from.
func (r *region) checkStream(off, n int, s stream, from int) error {
	var err error
	r.each(off, n, func(b []byte, at int) bool {
		if k := s.differs(b, from+at-off); k >= 0 {
			var head [8]byte
			r.each(off, 8, func(b []byte, at int) bool { copy(head[at-off:], b); return true })
			err = fmt.Errorf("byte %d of %d is not stream %#x's; it begins % x", at+k-off, n, uint64(s), head)
		}
		return err == nil
	})
	return err
}

// checkBlank returns an error if one of the n bytes at off is not blankByte.
func (r *region) checkBlank(off, n int) error {
	var err error
	r.each(off, n, func(b []byte, at int) bool {
		for c := b; len(c) > 0; {
			k := min(len(c), len(blanks))
			if !bytes.Equal(c[:k], blanks[:k]) {
				k = slices.IndexFunc(c, func(x byte) bool { return x != blankByte })
				err = fmt.Errorf("byte %d was written to", at+len(b)-len(c)+k)
				return false
			}
			c = c[k:]
		}
		return true
	})
	return err
}

// checkGuards returns an error if the guard bytes around the pieces have changed.
func (r *region) checkGuards() error {
	at := 0
	check := func(n int) error {
		if g := r.backing[at : at+n]; !bytes.Equal(g, guards[:n]) {
			return fmt.Errorf("guard of %d bytes at %d of %d holds % x", n, at, len(r.backing), g)
		}
		at += n
		return nil
	}
	if err := check(guardSize); err != nil {
		return err
	}
	for k, p := range r.pieces {
		at += len(p.Bytes)
		n := gapSize
		if k == len(r.pieces)-1 {
			n = guardSize
		}
		if err := check(n); err != nil {
			return err
		}
	}
	return nil
}

// describe sets the region as the memory of an MD: as Bytes if it has one piece, otherwise as Memory.
func (r *region) describe(d *portals.MD) {
	if len(r.pieces) == 1 {
		d.Bytes = r.pieces[0].Bytes
		return
	}
	d.Memory = memory.Vector{Segments: r.pieces, Length: r.n}
}
