package transport

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Register registers b in the domain, so that it can be added to the domain's TMs, and sets b.Deadline to
// zero. It may block, so callbacks should not call it. If Limits.PageSize is not 0 and the memory of b was
// not allocated by Domain.Buffer, nothing else may write to this memory during the call, neither a goroutine
// nor another buffer that receives; and the program must not unmap it until Deregister has returned.
//
// Register returns EINVAL if b has no segments or too many, if a segment is empty or too long, or if the Core
// cannot access the memory; EFBIG if b is larger than Limits.BufferSize; EBUSY if b is registered; and errors
// of the Core (transport 3.7). After an error nothing has changed.
func (d *Domain) Register(ctx context.Context, b *Buffer) error {
	if b == nil {
		return fmt.Errorf("transport: register: the buffer is nil: %w", syscall.EINVAL)
	}
	if !b.state.use.CompareAndSwap(unregistered, registering) {
		return fmt.Errorf("transport: register: the buffer is already registered: %w", syscall.EBUSY)
	}
	if err := d.register(ctx, b); err != nil {
		b.state.use.Store(unregistered)
		return fmt.Errorf("transport: register: %w", err)
	}
	b.state.use.Store(idle)
	return nil
}

// register implements Register. The caller has set b.state.use to registering.
func (d *Domain) register(ctx context.Context, b *Buffer) error {
	if err := d.limits.check(b); err != nil {
		return err
	}
	if err := d.addBuffer(); err != nil {
		return err
	}
	core, err := d.inner.Register(ctx, merged(b.state.segments), b)
	if err != nil {
		d.removeBuffer()
		return withErrno(err)
	}
	b.state.domain, b.state.core = d, core
	b.Deadline = time.Time{}
	return nil
}

// check returns an error if the buffer exceeds the limits.
func (l Limits) check(b *Buffer) error {
	if b.state.size > l.BufferSize {
		return fmt.Errorf("%d bytes are not within 1 to %d: %w", b.state.size, l.BufferSize, syscall.EFBIG)
	}
	n := len(b.state.segments)
	if n == 0 || n > l.Segments {
		return fmt.Errorf("%d segments are not within 1 to %d: %w", n, l.Segments, syscall.EINVAL)
	}
	for i, s := range b.state.segments {
		if len(s) == 0 || len(s) > l.SegmentSize {
			return fmt.Errorf("segment %d has %d bytes, not within 1 to %d: %w", i, len(s), l.SegmentSize, syscall.EINVAL)
		}
	}
	return nil
}

// Deregister ends the registration of b. It may block. A buffer created by Domain.Buffer keeps its memory:
// Free releases the memory, or Register registers the buffer again. If the memory was not allocated by
// Domain.Buffer, no goroutine may write to it during the call. Deregister returns EBUSY if b is queued or
// belongs to a pool, and EINVAL if b is not registered in this domain.
func (d *Domain) Deregister(b *Buffer) error {
	if err := d.deregister(b); err != nil {
		return fmt.Errorf("transport: deregister: %w", err)
	}
	return nil
}

func (d *Domain) deregister(b *Buffer) error {
	if err := checkNotPooled(b); err != nil {
		return err
	}
	s := &b.state
	if err := s.claim(registering); err != nil {
		return err
	}
	if s.domain != d {
		s.use.Store(idle)
		return errNotAllocatedHere
	}
	if err := s.core.Deregister(); err != nil {
		s.use.Store(idle)
		return err
	}
	s.domain, s.core = nil, nil
	s.use.Store(unregistered)
	d.removeBuffer()
	return nil
}

// checkNotPooled returns an error if b is nil or belongs to a pool.
func checkNotPooled(b *Buffer) error {
	switch {
	case b == nil:
		return fmt.Errorf("the buffer is nil: %w", syscall.EINVAL)
	case b.state.pool != nil:
		return errPooled
	}
	return nil
}

// free implements Free for all buffers, including those of pools.
func (d *Domain) free(b *Buffer) error {
	s := &b.state
	was := idle
	err := s.claim(registering)
	if errors.Is(err, errUnregistered) && s.use.CompareAndSwap(unregistered, registering) {
		was, err = unregistered, nil
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

// freeClaimed frees a buffer for free. was is the use of the buffer before free claimed it: idle or
// unregistered. freeClaimed returns the new use, which is also one of these.
func (d *Domain) freeClaimed(b *Buffer, was uint32) (uint32, error) {
	s := &b.state
	if s.allocator != d {
		return was, errNotAllocatedHere
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
		if err != nil && d.reregister(b) {
			return idle, err
		}
		s.domain, s.core = nil, nil
		d.removeBuffer()
	}
	if err == nil {
		s.segments, s.size, s.memory, s.allocator = nil, 0, nil, nil
	}
	return unregistered, err
}

// reregister registers b again after its memory could not be freed, most likely because another registered
// buffer uses a part of it. It reports whether it succeeded.
func (d *Domain) reregister(b *Buffer) bool {
	s := &b.state
	core, err := d.inner.Register(context.Background(), merged(s.segments), b)
	if err != nil {
		return false
	}
	s.core = core
	return true
}

// claim transfers ownership of a registered buffer from the program to a new owner, which use names. It
// returns an error if the program does not own the buffer, or if the buffer is not registered.
func (s *bufferState) claim(use uint32) error {
	for !s.use.CompareAndSwap(idle, use) {
		switch s.use.Load() {
		case unregistered, registering:
			return errUnregistered
		case queued:
			return errQueued
		case pooled:
			return errPooled
		}
	}
	return nil
}

// Reasons why a buffer cannot be claimed.
var (
	errUnregistered     = fmt.Errorf("the buffer is not registered: %w", syscall.EINVAL)
	errNotAllocatedHere = fmt.Errorf("the buffer was not made in this domain: %w", syscall.EINVAL)
	errQueued           = fmt.Errorf("the buffer is queued: %w", syscall.EBUSY)
	errPooled           = fmt.Errorf("the buffer belongs to a pool: %w", syscall.EBUSY)
)

// Buffer allocates size bytes of contiguous memory, 1 to Limits.BufferSize, and returns a registered buffer
// with this memory. The Core moves its data without copies. Buffer may block until ctx ends. Free releases
// the buffer and its memory. Buffer returns EFBIG if size is too large, EINVAL if it is less than 1, and
// errors of the Core.
func (d *Domain) Buffer(ctx context.Context, size int) (*Buffer, error) {
	if size < 1 {
		return nil, fmt.Errorf("transport: buffer of %d bytes: the size must be at least 1: %w", size, syscall.EINVAL)
	}
	if size > d.limits.BufferSize {
		return nil, fmt.Errorf("transport: buffer of %d bytes: more than the maximum of %d: %w", size, d.limits.BufferSize, syscall.EFBIG)
	}
	return d.allocate(ctx, size, func(memory []byte) [][]byte { return split(memory, d.limits.SegmentSize) })
}

// allocate creates a registered buffer with n bytes of memory of the Core. cut divides the memory into
// segments.
func (d *Domain) allocate(ctx context.Context, n int, cut func(memory []byte) [][]byte) (*Buffer, error) {
	if err := d.addBuffer(); err != nil { // keeps the domain open until Register has counted the buffer
		return nil, err
	}
	defer d.removeBuffer()
	memory, err := d.inner.Alloc(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("transport: buffer of %d bytes: %w", n, withErrno(err))
	}
	memory = memory[:n]
	b := NewBuffer(cut(memory)...)
	if err := d.Register(ctx, b); err != nil {
		// The memory can be freed because no buffer in it is registered. The caller gets the error of
		// Register.
		_ = d.inner.Free(memory)
		return nil, err
	}
	b.state.memory, b.state.allocator = memory, d
	return b, nil
}

// split divides memory into segments of n bytes. The last segment may be shorter.
func split(memory []byte, n int) [][]byte {
	segments := make([][]byte, 0, (len(memory)+n-1)/n)
	for len(memory) > n {
		segments = append(segments, memory[:n])
		memory = memory[n:]
	}
	return append(segments, memory)
}

// Free deregisters a buffer that was created by Domain.Buffer, if it is registered, and frees its memory. It
// may block. It returns EINVAL if this domain's Buffer did not create b or b was freed; EBUSY if b is queued,
// belongs to a pool, is registered in another domain, or shares memory with another registered buffer; and
// errors of the Core. After an error the buffer keeps its memory and can be freed later, but it may no longer
// be registered.
func (d *Domain) Free(b *Buffer) error {
	if err := checkNotPooled(b); err != nil {
		return fmt.Errorf("transport: free: %w", err)
	}
	return d.free(b)
}
