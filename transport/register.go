package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Register makes b known to the domain, so that it can be added to its TMs, and sets its
// deadline back to none. It may block; no callback may call it that must not.
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
		return err
	}
	b.state.domain, b.state.core = d, core
	b.Deadline = time.Time{}
	return nil
}

// check tells whether a buffer fits the limits.
func (l *Limits) check(b *Buffer) error {
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

// Deregister ends what Register began. It may block. EBUSY: it is queued, or a pool's;
// EINVAL: it is not registered here.
func (d *Domain) Deregister(b *Buffer) error { return d.deregisterLoose(b, false) }

// deregisterLoose is deregister of a buffer that is no pool's.
func (d *Domain) deregisterLoose(b *Buffer, free bool) error {
	if b == nil {
		return fmt.Errorf("transport: deregister: no buffer: %w", syscall.EINVAL)
	}
	if b.state.pool != nil {
		return fmt.Errorf("transport: deregister: %w", errPooled)
	}
	return d.deregister(b, free)
}

// deregister is Deregister, and Free if the memory has to be freed.
func (d *Domain) deregister(b *Buffer, free bool) error {
	s := &b.state
	if err := s.claim(moving); err != nil {
		return fmt.Errorf("transport: deregister: %w", err)
	}
	if s.domain != d || free && s.memory == nil {
		s.use.Store(idle)
		return fmt.Errorf("transport: deregister: the buffer was not made in this domain: %w", syscall.EINVAL)
	}
	if err := s.core.Deregister(); err != nil {
		s.use.Store(idle)
		return fmt.Errorf("transport: deregister: %w", err)
	}
	if !free {
		s.domain, s.core = nil, nil
		s.use.Store(loose)
		d.uncounted()
		return nil
	}
	err := d.inner.Free(s.memory)
	if errors.Is(err, syscall.EBUSY) && d.restore(b) {
		return fmt.Errorf("transport: free: %w", err)
	}
	s.domain, s.core = nil, nil
	s.segments, s.size, s.memory = nil, 0, nil
	s.use.Store(loose)
	d.uncounted()
	return err
}

// restore registers b again, which was deregistered, but whose memory cannot be freed since
// other buffers have a part of it. It tells whether all is as it was.
func (d *Domain) restore(b *Buffer) bool {
	s := &b.state
	core, err := d.inner.Register(context.Background(), merged(s.segments), b)
	if err != nil {
		return false
	}
	s.core = core
	s.use.Store(idle)
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

// Why a buffer cannot be claimed.
var (
	errUnregistered = fmt.Errorf("the buffer is not registered: %w", syscall.EINVAL)
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
		return nil, fmt.Errorf("transport: buffer of %d bytes: %w", n, err)
	}
	memory = memory[:n]
	b := NewBuffer(cut(memory)...)
	if err := d.Register(ctx, b); err != nil {
		// What could not be registered is free; the error that tells is that of Register.
		_ = d.inner.Free(memory)
		return nil, err
	}
	b.state.memory = memory
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

// Free deregisters a buffer that Buffer made, and frees its memory. It may block. Errors are
// those of Deregister; EBUSY, too, while another buffer that has a part of the memory is
// registered.
func (d *Domain) Free(b *Buffer) error { return d.deregisterLoose(b, true) }
