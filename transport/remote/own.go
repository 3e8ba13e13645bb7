package remote

import (
	"context"
	"fmt"
	"slices"
	"syscall"
)

// own is memory of a buffer that Alloc has not given, and what stands for it in the store. Whole
// pages of private memory are exchanged for pages of the store, in place. Other memory has a copy
// there, which send and fetch bring up to date.
type own struct {
	places   []*place
	segments [][]byte // of the program, if there is a copy
	copied   []byte   // the copy
	exchange *exchange
}

// share returns memory of the store that stands for segments. It is segments if Alloc has given
// them all, and o is nil then. The caller ends o. EDQUOT: more would be copied than may be, or
// lnetd maps no more.
func (s *store) share(ctx context.Context, segments [][]byte) (shared [][]byte, o *own, err error) {
	if !slices.ContainsFunc(segments, func(b []byte) bool { return !s.gave(b) }) {
		return segments, nil, nil
	}
	o = &own{}
	for _, b := range joined(segments) {
		if s.gave(b) {
			shared = append(shared, b)
			continue
		}
		p, err := s.place(ctx, b)
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

// joined are the segments, of which those that were cut from one slice, one behind the other, are
// one.
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

// gave reports whether b lies in what Alloc has given.
func (s *store) gave(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, p := s.around(b)
	return p != nil
}

// duplicate makes a copy of segments.
func (s *store) duplicate(ctx context.Context, segments [][]byte) ([][]byte, *own, error) {
	n := 0
	for _, b := range segments {
		n += len(b)
	}
	s.mu.Lock()
	copied := s.copied
	if copied+n <= s.copyMost {
		s.copied += n
	}
	s.mu.Unlock()
	if copied+n > s.copyMost {
		return nil, nil, fmt.Errorf("%d bytes whose pages cannot be exchanged must be copied, and %d of %d are (remote.Config.CopyMemory): %w",
			n, copied, s.copyMost, syscall.EDQUOT)
	}
	memory, err := s.alloc(ctx, n)
	if err != nil {
		s.uncount(n)
		return nil, nil, err
	}
	return [][]byte{memory}, &own{segments: segments, copied: memory, exchange: s.exchange}, nil
}

// uncount is for a copy of n bytes that has ended.
func (s *store) uncount(n int) {
	s.mu.Lock()
	s.copied -= n
	s.mu.Unlock()
}

// unshare ends o, of which no buffer has a part any more.
func (s *store) unshare(o *own) {
	if o == nil {
		return
	}
	for _, p := range o.places {
		s.leave(p)
	}
	o.places = nil
	if o.copied != nil {
		s.uncount(len(o.copied))
		_ = s.release(o.copied) // it is there, and no buffer has a part of it
		o.copied = nil
	}
}

// send copies the first n bytes of the program's memory, for lnetd to read.
func (o *own) send(n int) {
	if o == nil || o.copied == nil {
		return
	}
	to := o.copied[:min(n, len(o.copied))]
	for _, b := range o.segments {
		to = to[copy(to, b):]
	}
}

// fetch copies n bytes, at an offset, that lnetd has written into the program's memory.
func (o *own) fetch(offset, n int) {
	if o == nil || o.copied == nil || offset < 0 || n < 1 || offset >= len(o.copied) {
		return
	}
	o.exchange.writing.RLock() // what is written while pages are exchanged would be lost
	defer o.exchange.writing.RUnlock()
	from := o.copied[offset:min(len(o.copied), offset+n)]
	for _, b := range o.segments {
		if offset >= len(b) {
			offset -= len(b)
			continue
		}
		from = from[copy(b[offset:], from):]
		offset = 0
	}
}

// file is where a piece lies: the descriptor of its area, and the offset.
func (s *store) file(piece []byte) (fd int, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, p := s.around(piece)
	return a.fd, int64(p.at)
}
