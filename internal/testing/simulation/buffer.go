package simulation

import (
	"bytes"
	"context"
	"hash/crc32"

	"github.com/lnetd/lnetd/transport"
)

// trackedBuffer is a registered buffer, its memory, and what the checker records about both. A buffer of
// a pool uses the pool's memory.
type trackedBuffer struct {
	layer    *transportLayer
	buffer   *transport.Buffer
	region   *region           // nil for a buffer of a pool
	freeList *[]*trackedBuffer // the list to which putFree returns the buffer
	sum      uint32            // checksum of the memory when the machine returned the buffer

	// Guarded by world.mu.
	loan       *loan // the current loan; nil while the program owns the buffer
	cancelling int   // calls of Cancel in progress
}

// addBuffer registers r as a buffer and adds the buffer to the list home, unless home is nil. It returns
// nil if the registration fails.
func (s *transportLayer) addBuffer(r *region, home *[]*trackedBuffer) *trackedBuffer {
	w := s.life.member.w
	var segments [][]byte
	for _, p := range r.pieces {
		for b := p.Bytes; len(b) > 0; {
			n := min(len(b), s.domain.Limits().SegmentSize)
			segments = append(segments, b[:n:n])
			b = b[n:]
		}
	}
	c := &trackedBuffer{layer: s, region: r, freeList: home, buffer: transport.NewBuffer(segments...)}
	c.buffer.Data = c
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.domain.Register(ctx, c.buffer); err != nil {
		if s.life.running() {
			w.violate("%v: register: %v", s.life, err)
		}
		return nil
	}
	c.sum = c.region.sum()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.buffers = append(s.buffers, c)
	if home != nil {
		*home = append(*home, c)
	}
	return c
}

// trackedOf returns the trackedBuffer of b. It creates one when it is called with a pool's buffer for
// the first time. w.mu is held.
func (s *transportLayer) trackedOf(b *transport.Buffer) *trackedBuffer {
	if c, ok := b.Data.(*trackedBuffer); ok {
		return c
	}
	c := &trackedBuffer{layer: s, buffer: b}
	b.Data = c
	return c
}

// takeFree removes a buffer from a free list. It returns nil if fewer than leave buffers would remain.
// w.mu is not held.
func (s *transportLayer) takeFree(from *[]*trackedBuffer, leave int) *trackedBuffer {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(*from)
	if n <= leave {
		return nil
	}
	c := (*from)[0]
	*from = append((*from)[:0:0], (*from)[1:]...)
	return c
}

// putFree returns a buffer to its free list. w.mu is not held.
func (s *transportLayer) putFree(c *trackedBuffer) {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	*c.freeList = append(*c.freeList, c)
}

// inspect records a violation if the memory has changed since the machine returned the buffer, or if
// anything was written outside of the memory.
func (c *trackedBuffer) inspect() {
	w := c.layer.life.member.w
	if c.region.sum() != c.sum {
		w.violate("%v: memory has changed that was the program's", c.layer.life)
	}
	if err := c.region.checkGuards(); err != nil {
		w.violate("%v: %v", c.layer.life, err)
	}
}

// fill writes a stream to the whole memory of a free buffer.
func (c *trackedBuffer) fill(s stream) {
	c.inspect()
	c.region.fill(s)
	c.sum = c.region.sum()
}

// write writes bytes to the beginning of a free buffer.
func (c *trackedBuffer) write(p []byte) {
	c.inspect()
	c.buffer.CopyIn(0, p)
	c.sum = c.region.sum()
}

// wipe sets the memory of a free buffer to its initial content.
func (c *trackedBuffer) wipe() {
	c.inspect()
	c.region.wipe()
	c.sum = c.region.sum()
}

// holds reports whether the buffer's bytes at off are want.
func holds(b *transport.Buffer, off int, want []byte) bool {
	got := make([]byte, len(want))
	return b.CopyOut(off, got) == len(want) && bytes.Equal(got, want)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns a checksum of all bytes.
func (r *region) sum() uint32 {
	sum := uint32(0)
	for _, p := range r.pieces {
		sum = crc32.Update(sum, castagnoli, p.Bytes)
	}
	return sum
}

// wipe sets all bytes to blankByte.
func (r *region) wipe() {
	for _, p := range r.pieces {
		for c := p.Bytes; len(c) > 0; {
			c = c[copy(c, blanks):]
		}
	}
}
