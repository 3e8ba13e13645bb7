package remote

import (
	"cmp"
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
}

// place is memory of the program whose pages are those of a piece of the store.
type place struct {
	bytes []byte // of the program
	piece []byte // the same memory in its area
	users int    // segments of buffers
}

// share returns memory of the store that stands for segments. It is segments if Alloc has given
// them all, and o is nil then. The caller ends o. EDQUOT: more would be copied than may be.
func (s *store) share(ctx context.Context, segments [][]byte) (shared [][]byte, o *own, err error) {
	if !slices.ContainsFunc(segments, func(b []byte) bool { return !s.gave(b) }) {
		return segments, nil, nil
	}
	select {
	case s.sharing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-s.sharing }()
	o = &own{}
	for _, b := range segments {
		in := b
		if !s.gave(b) {
			if in = s.replaced(ctx, b, o); in == nil {
				s.restore(o)
				return s.duplicate(ctx, segments)
			}
		}
		shared = append(shared, in)
	}
	return shared, o, nil
}

// gave reports whether b lies in what Alloc has given.
func (s *store) gave(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, p := s.around(b)
	return p != nil
}

// replaced is the memory of the store whose pages are, or are from now on, those of b; nil if b
// cannot have such.
func (s *store) replaced(ctx context.Context, b []byte, o *own) []byte {
	at := address(b)
	i, found := slices.BinarySearchFunc(s.places, at, func(p *place, at uintptr) int { return cmp.Compare(address(p.bytes), at) })
	if !found {
		i--
	}
	if i >= 0 {
		p := s.places[i]
		if from := int(at - address(p.bytes)); from+len(b) <= len(p.bytes) {
			p.users++
			o.places = append(o.places, p)
			return p.piece[from : from+len(b)]
		}
	}
	whole := int(at)%s.page == 0 && len(b)%s.page == 0
	overlaps := i >= 0 && at < address(s.places[i].bytes)+uintptr(len(s.places[i].bytes)) ||
		i+1 < len(s.places) && address(s.places[i+1].bytes) < at+uintptr(len(b))
	if !whole || overlaps || !private(at, at+uintptr(len(b))) {
		return nil
	}
	piece, err := s.alloc(ctx, len(b))
	if err != nil {
		return nil
	}
	copy(piece, b)
	fd, offset := s.file(piece)
	if err := mapOver(b, fd, offset); err != nil {
		_ = s.release(piece) // it is there, and no buffer has a part of it
		return nil
	}
	p := &place{bytes: b, piece: piece, users: 1}
	s.places = slices.Insert(s.places, i+1, p)
	o.places = append(o.places, p)
	return piece
}

// duplicate makes a copy of segments. sharing is held.
func (s *store) duplicate(ctx context.Context, segments [][]byte) ([][]byte, *own, error) {
	n := 0
	for _, b := range segments {
		n += len(b)
	}
	if s.copied+n > s.copyMost {
		return nil, nil, fmt.Errorf("%d bytes that are not whole pages of private memory must be copied, and %d of %d are (remote.Config.CopyMemory): %w",
			n, s.copied, s.copyMost, syscall.EDQUOT)
	}
	memory, err := s.alloc(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	s.copied += n
	return [][]byte{memory}, &own{segments: segments, copied: memory}, nil
}

// unshare ends o, of which no buffer has a part any more.
func (s *store) unshare(o *own) {
	if o == nil {
		return
	}
	s.sharing <- struct{}{}
	s.restore(o)
	<-s.sharing
}

// restore is unshare. sharing is held. A place that the system cannot give back, since the process
// has too many mappings, stays: it is the program's all the same, and serves the next buffer there.
func (s *store) restore(o *own) {
	for _, p := range o.places {
		if p.users--; p.users > 0 || mapPrivate(p.bytes) != nil {
			continue
		}
		s.places = slices.DeleteFunc(s.places, func(q *place) bool { return q == p })
		_ = s.release(p.piece) // it is there, and no buffer has a part of it
	}
	o.places = nil
	if o.copied != nil {
		s.copied -= len(o.copied)
		_ = s.release(o.copied)
		o.copied = nil
	}
}

// kept is the number of places that no buffer has. sharing is held, or nothing is shared any more.
func (s *store) kept() (n int) {
	for _, p := range s.places {
		if p.users == 0 {
			n++
		}
	}
	return n
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
