package simulation

import (
	"bytes"
	"context"
	"hash/crc32"

	"github.com/lnetd/lnetd/transport"
)

// crate is a registered buffer and its memory. The buffers of a pool use the pool's memory.
type crate struct {
	station *station
	buffer  *transport.Buffer
	region  *region   // nil if the memory is the pool's
	home    *[]*crate // the free list that it belongs to
	sum     uint32    // of the memory when the buffer was returned

	// Guarded by world.mu.
	loan       *loan // nil while the program owns it
	cancelling int   // calls of Cancel in progress
}

// addCrate registers memory as a buffer.
func (s *station) addCrate(r *region, home *[]*crate) *crate {
	w := s.life.member.w
	var segments [][]byte
	for _, p := range r.pieces {
		for b := p.Bytes; len(b) > 0; {
			n := min(len(b), s.domain.Limits().SegmentSize)
			segments = append(segments, b[:n:n])
			b = b[n:]
		}
	}
	c := &crate{station: s, region: r, home: home, buffer: transport.NewBuffer(segments...)}
	c.buffer.Data = c
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	s.crates = append(s.crates, c)
	if home != nil {
		*home = append(*home, c)
	}
	return c
}

// crateOf returns the crate of a buffer. A pool's buffer gets one on first use. w.mu is held.
func (s *station) crateOf(b *transport.Buffer) *crate {
	if c, ok := b.Data.(*crate); ok {
		return c
	}
	c := &crate{station: s, buffer: b}
	b.Data = c
	return c
}

// take removes a crate from a free list, or returns nil if that would leave fewer than leave. w.mu is not
// held.
func (s *station) take(from *[]*crate, leave int) *crate {
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

// giveBack returns a crate to its free list. w.mu is not held.
func (s *station) giveBack(c *crate) {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	*c.home = append(*c.home, c)
}

// inspect checks that the memory has not changed since the buffer was returned, and that nothing was
// written outside of it.
func (c *crate) inspect() {
	w := c.station.life.member.w
	if c.region.sum() != c.sum {
		w.violate("%v: memory has changed that was the program's", c.station.life)
	}
	if err := c.region.guarded(); err != nil {
		w.violate("%v: %v", c.station.life, err)
	}
}

// fill writes a stream to a free crate.
func (c *crate) fill(s stream) {
	c.inspect()
	c.region.fill(s)
	c.sum = c.region.sum()
}

// write writes bytes to the beginning of a free crate.
func (c *crate) write(p []byte) {
	c.inspect()
	c.buffer.CopyIn(0, p)
	c.sum = c.region.sum()
}

// wipe resets the memory of a free crate.
func (c *crate) wipe() {
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

// wipe resets all bytes.
func (r *region) wipe() {
	for _, p := range r.pieces {
		for c := p.Bytes; len(c) > 0; {
			c = c[copy(c, blanks):]
		}
	}
}
