package simulation

import (
	"bytes"
	"context"
	"hash/crc32"

	"github.com/lnetd/lnetd/transport"
)

// crate is a registered buffer and its memory; of a pool's buffers the memory is the
// pool's.
type crate struct {
	station *station
	buffer  *transport.Buffer
	region  *region   // nil: the pool's
	home    *[]*crate // the list of free ones that it belongs to
	sum     uint32    // of the memory when it came back

	// Guarded by world.mu.
	loan       *loan // nil while it is the program's
	cancelling int   // calls of Cancel under way
}

// addCrate registers memory.
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

// crateOf is the crate of a buffer; a pool's has none at first. w.mu is held.
func (s *station) crateOf(b *transport.Buffer) *crate {
	if c, ok := b.Data.(*crate); ok {
		return c
	}
	c := &crate{station: s, buffer: b}
	b.Data = c
	return c
}

// take takes a free crate, unless no more than so many are left. w.mu is not held.
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

// giveBack makes a crate free again. w.mu is not held.
func (s *station) giveBack(c *crate) {
	w := s.life.member.w
	w.mu.Lock()
	defer w.mu.Unlock()
	*c.home = append(*c.home, c)
}

// inspect looks whether somebody has written to the memory since it came back, or beside
// it.
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

// wipe makes a free crate blank.
func (c *crate) wipe() {
	c.inspect()
	c.region.wipe()
	c.sum = c.region.sum()
}

// holds tells whether the bytes of a buffer are some others.
func holds(b *transport.Buffer, off int, want []byte) bool {
	got := make([]byte, len(want))
	return b.CopyOut(off, got) == len(want) && bytes.Equal(got, want)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is a sum of all bytes.
func (r *region) sum() uint32 {
	sum := uint32(0)
	for _, p := range r.pieces {
		sum = crc32.Update(sum, castagnoli, p.Bytes)
	}
	return sum
}

// wipe makes all bytes blank.
func (r *region) wipe() {
	for _, p := range r.pieces {
		for c := p.Bytes; len(c) > 0; {
			c = c[copy(c, blanks):]
		}
	}
}
