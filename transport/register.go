package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Register makes b known to the domain, so that it can be added to its TMs, and sets its
// deadline back to none. It may block, so no callback that must not block may call it. If
// Limits.PageSize is not 0 and Domain.Buffer has not made the memory of b, then no goroutine, and no
// other buffer that receives, may write to this memory meanwhile, nor may the program unmap it until
// Deregister has returned.
//
// EINVAL: no segments, an empty or too long one, too many, or memory that the Core cannot
// reach; EFBIG: more than Limits.BufferSize in all; EBUSY: it is registered; or the
// Core's (transport 3.7). Nothing has happened then.
func (d *Domain) Register(ctx context.Context, b *Buffer) error {
	if b == nil {
		return fmt.Errorf("transport: register: no buffer: %w", syscall.EINVAL)
	}
	if !b.state.use.CompareAndSwap(loose, moving) {
		return fmt.Errorf("transport: register: the buffer is registered: %w", syscall.EBUSY)
	}
	if err := d.register(ctx, b); err != nil {
		b.state.use.Store(loose)
		return fmt.Errorf("transport: register: %w", err)
	}
	b.state.use.Store(idle)
	return nil
}

// register is Register of a buffer that the caller has claimed.
func (d *Domain) register(ctx context.Context, b *Buffer) error {
	if err := d.limits.check(b); err != nil {
		return err
	}
	if err := d.counted(); err != nil {
		return err
	}
	core, err := d.inner.Register(ctx, merged(b.state.segments), b)
	if err != nil {
		d.uncounted()
		return withErrno(err)
	}
	b.state.domain, b.state.core = d, core
	b.Deadline = time.Time{}
	return nil
}

// check tells whether a buffer fits the limits.
func (l Limits) check(b *Buffer) error {
	if b.state.size > l.BufferSize {
		return fmt.Errorf("%d bytes, not 1 to %d: %w", b.state.size, l.BufferSize, syscall.EFBIG)
	}
	n := len(b.state.segments)
	if n == 0 || n > l.Segments {
		return fmt.Errorf("%d segments, not 1 to %d: %w", n, l.Segments, syscall.EINVAL)
	}
	for i, s := range b.state.segments {
		if len(s) == 0 || len(s) > l.SegmentSize {
			return fmt.Errorf("segment %d of %d bytes, not 1 to %d: %w", i, len(s), l.SegmentSize, syscall.EINVAL)
		}
	}
	return nil
}

// Deregister ends what Register began. It may block. A buffer that Buffer made keeps its
// memory: Free ends that, or Register takes it again. No goroutine may write to other memory of b
// meanwhile, as with Register. EBUSY: it is queued, or a pool's;
// EINVAL: it is not registered here.
func (d *Domain) Deregister(b *Buffer) error {
	if err := d.deregister(b); err != nil {
		return fmt.Errorf("transport: deregister: %w", err)
	}
	return nil
}

func (d *Domain) deregister(b *Buffer) error {
	if err := noPools(b); err != nil {
		return err
	}
	s := &b.state
	if err := s.claim(moving); err != nil {
		return err
	}
	if s.domain != d {
		s.use.Store(idle)
		return errElsewhere
	}
	if err := s.core.Deregister(); err != nil {
		s.use.Store(idle)
		return err
	}
	s.domain, s.core = nil, nil
	s.use.Store(loose)
	d.uncounted()
	return nil
}

// noPools tells whether there is a buffer, and it is no pool's.
func noPools(b *Buffer) error {
	switch {
	case b == nil:
		return fmt.Errorf("no buffer: %w", syscall.EINVAL)
	case b.state.pool != nil:
		return errPooled
	}
	return nil
}

// free is Free of any buffer, a pool's, too.
func (d *Domain) free(b *Buffer) error {
	s := &b.state
	was := idle
	err := s.claim(moving)
	if errors.Is(err, errUnregistered) && s.use.CompareAndSwap(loose, moving) {
		was, err = loose, nil
	}
	if err == nil {
		was, err = d.freeClaimed(b, was)
		s.use.Store(was)
	}
	if err != nil {
		return fmt.Errorf("transport: free: %w", err)
	}
	return nil
}

// freeClaimed is free of a buffer that was idle, or loose, and is the caller's. It returns
// which of the two it is now.
func (d *Domain) freeClaimed(b *Buffer, was uint32) (uint32, error) {
	s := &b.state
	if s.maker != d {
		return was, errElsewhere
	}
	if was == idle {
		if s.domain != d {
			return was, fmt.Errorf("the buffer is registered in another domain: %w", syscall.EBUSY)
		}
		if err := s.core.Deregister(); err != nil {
			return was, err
		}
	}
	err := d.inner.Free(s.memory)
	if was == idle {
		if err != nil && d.restore(b) {
			return idle, err
		}
		s.domain, s.core = nil, nil
		d.uncounted()
	}
	if err == nil {
		s.segments, s.size, s.memory, s.maker = nil, 0, nil, nil
	}
	return loose, err
}

// restore registers b again, which was deregistered, but whose memory cannot be freed, most
// likely since other buffers have a part of it. It tells whether all is as it was.
func (d *Domain) restore(b *Buffer) bool {
	s := &b.state
	core, err := d.inner.Register(context.Background(), merged(s.segments), b)
	if err != nil {
		return false
	}
	s.core = core
	return true
}

// claim makes a registered buffer that the program has the caller's, for a use.
func (s *bufferState) claim(use uint32) error {
	for !s.use.CompareAndSwap(idle, use) {
		switch s.use.Load() {
		case loose, moving:
			return errUnregistered
		case queued:
			return errQueued
		case pooled:
			return errPooled
		}
	}
	return nil
}

// Why a buffer cannot be claimed, or is none of the domain's.
var (
	errUnregistered = fmt.Errorf("the buffer is not registered: %w", syscall.EINVAL)
	errElsewhere    = fmt.Errorf("the buffer was not made in this domain: %w", syscall.EINVAL)
	errQueued       = fmt.Errorf("the buffer is queued: %w", syscall.EBUSY)
	errPooled       = fmt.Errorf("the buffer is a pool's: %w", syscall.EBUSY)
)

// Buffer makes a registered buffer of size bytes, 1 to Limits.BufferSize, in one piece of
// memory that the Core moves without copies. It may block until ctx ends. Free ends both.
// EFBIG: it is too large; EINVAL: there is no such size; or the Core's.
func (d *Domain) Buffer(ctx context.Context, size int) (*Buffer, error) {
	if size < 1 {
		return nil, fmt.Errorf("transport: buffer of %d bytes: %w", size, syscall.EINVAL)
	}
	if size > d.limits.BufferSize {
		return nil, fmt.Errorf("transport: buffer of %d bytes, more than %d: %w", size, d.limits.BufferSize, syscall.EFBIG)
	}
	return d.allocate(ctx, size, func(memory []byte) [][]byte { return split(memory, d.limits.SegmentSize) })
}

// allocate makes a registered buffer of n bytes that the Core allocates, and cut cuts into
// segments.
func (d *Domain) allocate(ctx context.Context, n int, cut func(memory []byte) [][]byte) (*Buffer, error) {
	if err := d.counted(); err != nil { // while there is memory, but no buffer
		return nil, err
	}
	defer d.uncounted()
	memory, err := d.inner.Alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("transport: buffer of %d bytes: %w", n, withErrno(err))
	}
	memory = memory[:n]
	b := NewBuffer(cut(memory)...)
	if err := d.Register(ctx, b); err != nil {
		// What could not be registered is free; the error that tells is that of Register.
		_ = d.inner.Free(memory)
		return nil, err
	}
	b.state.memory, b.state.maker = memory, d
	return b, nil
}

// split makes segments of n bytes, the last one perhaps shorter, of memory.
func split(memory []byte, n int) [][]byte {
	segments := make([][]byte, 0, (len(memory)+n-1)/n)
	for len(memory) > n {
		segments = append(segments, memory[:n])
		memory = memory[n:]
	}
	return append(segments, memory)
}

// Free frees the memory of a buffer that Buffer made, and ends its registration, if it has
// one yet. It may block. EINVAL: Buffer has not made it here, or its memory is free; EBUSY:
// it is queued, or a pool's, or registered in another domain, or another registered buffer
// has a part of the memory; or the Core's. Then the buffer has its memory yet, and can be
// freed later; if the Core would not take it back, it is not registered any more.
func (d *Domain) Free(b *Buffer) error {
	if err := noPools(b); err != nil {
		return fmt.Errorf("transport: free: %w", err)
	}
	return d.free(b)
}
