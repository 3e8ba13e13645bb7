package remote

import (
	"context"
	"fmt"
	"slices"
	"syscall"
)

// foreignMemory represents the memory of a buffer that is not from Alloc. Whole pages of private memory are
// replaced in place by pages of the store, so that they need no copy. Other memory has a copy in the store;
// send and fetch transfer data between the memory and the copy.
type foreignMemory struct {
	places   []*place
	segments [][]byte // the program's memory; nil if there is no copy
	copy     []byte   // the copy in the store, or nil
	exchange *exchange
}

// share returns memory of the store that lnetd can use in place of segments. If all segments are from Alloc,
// it returns them and nil. Otherwise the caller must call unshare(o) when the buffer ends. share returns
// EDQUOT if the limit of copies, or lnetd's limit of mapped memory, is reached.
func (s *store) share(ctx context.Context, segments [][]byte) (shared [][]byte, o *foreignMemory, err error) {
	if !slices.ContainsFunc(segments, func(b []byte) bool { return !s.contains(b) }) {
		return segments, nil, nil
	}
	o = &foreignMemory{}
	for _, b := range joined(segments) {
		if s.contains(b) {
			shared = append(shared, b)
			continue
		}
		p, err := s.acquirePlace(ctx, b)
		if p == nil {
			s.unshare(o)
			if err != nil {
				return nil, nil, err
			}
			return s.duplicate(ctx, segments)
		}
		o.places = append(o.places, p)
		shared = append(shared, p.piece)
	}
	return shared, o, nil
}

// joined returns the same memory in as few segments as possible, by joining adjacent slices of one array.
func joined(segments [][]byte) (all [][]byte) {
	for _, b := range segments {
		if k := len(all) - 1; k >= 0 {
			last := all[k]
			if cap(last)-len(last) >= len(b) && address(last)+uintptr(len(last)) == address(b) {
				all[k] = last[:len(last)+len(b)]
				continue
			}
		}
		all = append(all, b)
	}
	return all
}

// contains reports whether b is in memory that Alloc has returned.
func (s *store) contains(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, p := s.areaOf(b)
	return p != nil
}

// duplicate allocates memory of the store for a copy of segments. It does not copy the data.
func (s *store) duplicate(ctx context.Context, segments [][]byte) ([][]byte, *foreignMemory, error) {
	n := 0
	for _, b := range segments {
		n += len(b)
	}
	s.mu.Lock()
	copied := s.copied
	if copied+n <= s.maxCopied {
		s.copied += n
	}
	s.mu.Unlock()
	if copied+n > s.maxCopied {
		return nil, nil, fmt.Errorf("%d bytes must be copied because their pages cannot be exchanged, but %d of at most %d bytes are already copied (remote.Config.CopyMemory): %w",
			n, copied, s.maxCopied, syscall.EDQUOT)
	}
	memory, err := s.alloc(ctx, n)
	if err != nil {
		s.subtractCopied(n)
		return nil, nil, err
	}
	return [][]byte{memory}, &foreignMemory{segments: segments, copy: memory, exchange: s.exchange}, nil
}

// subtractCopied subtracts a copy of n bytes, which has ended, from the total.
func (s *store) subtractCopied(n int) {
	s.mu.Lock()
	s.copied -= n
	s.mu.Unlock()
}

// unshare releases what share has acquired. No buffer uses o any more. o may be nil.
func (s *store) unshare(o *foreignMemory) {
	if o == nil {
		return
	}
	for _, p := range o.places {
		s.releasePlace(p)
	}
	o.places = nil
	if o.copy != nil {
		s.subtractCopied(len(o.copy))
		_ = s.release(o.copy) // cannot fail: the memory exists and is unused
		o.copy = nil
	}
}

// send copies the first n bytes of the program's memory to the copy, for lnetd to read. It does nothing if
// there is no copy.
func (o *foreignMemory) send(n int) {
	if o == nil || o.copy == nil {
		return
	}
	to := o.copy[:min(n, len(o.copy))]
	for _, b := range o.segments {
		to = to[copy(to, b):]
	}
}

// fetch copies n bytes at an offset, which lnetd has written, from the copy to the program's memory. It does
// nothing if there is no copy.
func (o *foreignMemory) fetch(offset, n int) {
	if o == nil || o.copy == nil || offset < 0 || n < 1 || offset >= len(o.copy) {
		return
	}
	o.exchange.copyLock.RLock() // while pages are exchanged, data written to them would be lost
	defer o.exchange.copyLock.RUnlock()
	from := o.copy[offset:min(len(o.copy), offset+n)]
	for _, b := range o.segments {
		if offset >= len(b) {
			offset -= len(b)
			continue
		}
		from = from[copy(b[offset:], from):]
		offset = 0
	}
}

// file returns the file descriptor of the area that contains piece, and the offset of piece in the file.
func (s *store) file(piece []byte) (fd int, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, p := s.areaOf(piece)
	return a.fd, int64(p.offset)
}
