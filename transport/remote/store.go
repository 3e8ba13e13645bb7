package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// store manages the memory that a domain shares with lnetd. It consists of areas, which Alloc divides into
// pieces, because a connection may have few areas but many buffers. A new area has at least firstArea
// bytes, and at least a quarter of the existing bytes, so that the quotas of areas and of bytes are used up
// at the same rate.
type store struct {
	connection *connection
	page       int
	// forget deregisters idle buffers of an area that is about to be removed.
	forget func(area uint32)
	// growing is held while an area is created, so that two goroutines do not create one each.
	growing  chan struct{}
	exchange *exchange
	places   map[extent]*place // guarded by exchange.mu
	copyMost int               // limit of copied

	mu     sync.Mutex // guards the fields below
	areas  []*area    // sorted by address
	bytes  int        // total size of the areas
	copied int        // total size of the copies
	lost   int        // number of pieces whose pages the program keeps forever
}

// area is memory mapped by this process and by lnetd.
type area struct {
	id     uint32
	memory *shm.Memory
	fd     int
	bytes  []byte
	at     uintptr
	pieces []*piece // allocated pieces, sorted by position
	free   []run    // free runs, sorted by position, not adjacent to each other
	// fresh is the offset from which the memory was never used.
	fresh int
}

// run is a range of length bytes of an area.
type run struct{ at, length int }

// piece is an allocation: a run of whole pages. asked is the requested length.
type piece struct {
	run
	asked int
	// users is the number of segments of buffers in it.
	users int
}

const firstArea = 1 << 20

func newStore(c *connection, page, copyMost int, x *exchange, forget func(area uint32)) *store {
	return &store{
		connection: c, page: page, copyMost: copyMost, forget: forget, growing: make(chan struct{}, 1),
		exchange: x, places: make(map[extent]*place),
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// alloc returns n bytes of zeroed memory.
func (s *store) alloc(ctx context.Context, n int) ([]byte, error) {
	if n < 1 || n > 1<<40 {
		return nil, syscall.EINVAL
	}
	pages := (n + s.page - 1) / s.page * s.page
	if b := s.take(n, pages); b != nil {
		return b, nil
	}
	select {
	case s.growing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.growing }()
	if b := s.take(n, pages); b != nil {
		return b, nil
	}
	a, err := s.grow(ctx, pages)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	i := s.search(a.at)
	s.areas = slices.Insert(s.areas, i, a)
	s.bytes += len(a.bytes)
	b, _ := a.cut(n, pages) // new memory, which needs no clearing
	s.mu.Unlock()
	return b, nil
}

// take allocates from existing areas. It returns nil if no area has enough contiguous memory.
func (s *store) take(n, pages int) []byte {
	s.mu.Lock()
	var b []byte
	used := 0
	for _, a := range s.areas {
		if b, used = a.cut(n, pages); b != nil {
			break
		}
	}
	s.mu.Unlock()
	clear(b[:used])
	return b
}

// cut allocates n bytes of the area. It returns how many of the first bytes may have been used before.
func (a *area) cut(n, pages int) (b []byte, used int) {
	for i := range a.free {
		r := &a.free[i]
		if r.length < pages {
			continue
		}
		p := &piece{run: run{r.at, pages}, asked: n}
		r.at += pages
		if r.length -= pages; r.length == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		k, _ := a.find(p.at)
		a.pieces = slices.Insert(a.pieces, k, p)
		used = min(max(a.fresh-p.at, 0), n)
		a.fresh = max(a.fresh, p.at+pages)
		return a.bytes[p.at : p.at+n : p.at+n], used
	}
	return nil, 0
}

// find returns the index in pieces of the piece that begins at offset at, or where it would be inserted.
func (a *area) find(at int) (int, bool) {
	return slices.BinarySearchFunc(a.pieces, at, func(p *piece, at int) int { return p.at - at })
}

// search returns the index in areas of the area that begins at an address, or where it would be inserted.
// mu is held.
func (s *store) search(at uintptr) int {
	i, _ := slices.BinarySearchFunc(s.areas, at, func(a *area, at uintptr) int {
		switch {
		case a.at < at:
			return -1
		case a.at > at:
			return 1
		}
		return 0
	})
	return i
}

// grow creates an area of at least the given size.
func (s *store) grow(ctx context.Context, bytes int) (*area, error) {
	s.mu.Lock()
	generous := max(bytes, firstArea, s.bytes/4/s.page*s.page)
	s.mu.Unlock()
	a, err := s.add(ctx, generous)
	if err != nil && generous > bytes && ctx.Err() == nil {
		a, err = s.add(ctx, bytes)
	}
	return a, err
}

// add creates an area of the given size, and passes it to lnetd.
func (s *store) add(ctx context.Context, bytes int) (*area, error) {
	m, fd, err := shm.Create("lnetd-area", bytes)
	if err != nil {
		return nil, err
	}
	b := m.Bytes()
	a := &area{memory: m, fd: fd, bytes: b, at: address(b), free: []run{{0, len(b)}}}
	var reply protocol.AreaAddReply
	err = s.connection.ask(ctx, &protocol.AreaAdd{Size: uint64(len(b))}, &reply, s.undoAdd, fd)
	if err != nil {
		_ = a.close() // cannot fail: it is mapped
		return nil, err
	}
	a.id = reply.Area
	return a, nil
}

// close unmaps the area, and closes its file.
func (a *area) close() error {
	closeAll([]int{a.fd})
	return a.memory.Close()
}

// undoAdd removes an area whose creation was abandoned by its caller.
func (s *store) undoAdd(a *call) {
	var reply protocol.AreaAddReply
	if s.connection.decode(a, &reply) == nil {
		_ = s.del(reply.Area) // a refusal by lnetd cannot be handled
	}
}

// del removes an area from lnetd. No buffer uses it.
func (s *store) del(id uint32) error {
	s.forget(id)
	return s.connection.insist(&protocol.AreaDel{Area: id}, &protocol.Empty{})
}

// around returns the piece that contains b, and its area, or nil. mu is held.
func (s *store) around(b []byte) (*area, *piece) {
	at := address(b)
	i := s.search(at)
	if i == len(s.areas) || s.areas[i].at != at {
		i--
	}
	if i < 0 || at-s.areas[i].at >= uintptr(len(s.areas[i].bytes)) {
		return nil, nil
	}
	a := s.areas[i]
	from := int(at - a.at)
	k, found := a.find(from)
	if !found {
		k--
	}
	if k < 0 || from+len(b) > a.pieces[k].at+a.pieces[k].length {
		return nil, nil
	}
	return a, a.pieces[k]
}

// release frees memory of alloc. It returns EINVAL if b is not such memory, and EBUSY if a buffer uses a
// part of it. If an area becomes empty, it is removed, unless it is the only empty one, which is kept for
// the next alloc.
func (s *store) release(b []byte) error {
	s.mu.Lock()
	a, p := s.around(b)
	switch {
	case p == nil || p.at != int(address(b)-a.at) || p.asked != len(b):
		s.mu.Unlock()
		return syscall.EINVAL
	case p.users > 0:
		s.mu.Unlock()
		return syscall.EBUSY
	}
	a.giveBack(p)
	spare := 0
	for _, other := range s.areas {
		if len(other.pieces) == 0 {
			spare++
		}
	}
	if len(a.pieces) > 0 || spare == 1 {
		s.mu.Unlock()
		return nil
	}
	s.remove(a)
	s.mu.Unlock()
	if err := s.del(a.id); err != nil && !gone(err) {
		s.mu.Lock()
		s.areas = slices.Insert(s.areas, s.search(a.at), a)
		s.bytes += len(a.bytes)
		s.mu.Unlock()
		return nil // the piece is free, and the area can be used again
	}
	return a.close()
}

// remove removes an area from areas. mu is held.
func (s *store) remove(a *area) {
	i := s.search(a.at)
	s.areas = slices.Delete(s.areas, i, i+1)
	s.bytes -= len(a.bytes)
}

// giveBack marks the memory of a piece as free.
func (a *area) giveBack(p *piece) {
	k, _ := a.find(p.at)
	a.pieces = slices.Delete(a.pieces, k, k+1)
	r := p.run
	i, _ := slices.BinarySearchFunc(a.free, r.at, func(f run, at int) int { return f.at - at })
	if i < len(a.free) && a.free[i].at == r.at+r.length {
		r.length += a.free[i].length
		a.free = slices.Delete(a.free, i, i+1)
	}
	if i > 0 && a.free[i-1].at+a.free[i-1].length == r.at {
		a.free[i-1].length += r.length
		return
	}
	a.free = slices.Insert(a.free, i, r)
}

// hold converts segments to ranges of areas within limits, and marks their pieces as used until letGo. It
// returns EINVAL if a segment is in other memory, and EFBIG if there would be too many ranges.
func (s *store) hold(segments [][]byte, limits *protocol.Limits) (ranges []protocol.Range, pieces []*piece, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range segments {
		a, p := s.around(b)
		if p == nil || len(b) == 0 {
			return nil, nil, fmt.Errorf("memory that is not of the store: %w", syscall.EINVAL)
		}
		pieces = append(pieces, p)
		for from := int(address(b) - a.at); len(b) > 0; {
			if len(ranges) == int(limits.Segments) {
				return nil, nil, fmt.Errorf("more than %d ranges: %w", limits.Segments, syscall.EFBIG)
			}
			n := min(len(b), int(limits.SegmentSize))
			ranges = append(ranges, protocol.Range{Area: a.id, Offset: uint64(from), Length: uint32(n)})
			b, from = b[n:], from+n
		}
	}
	for _, p := range pieces {
		p.users++
	}
	return ranges, pieces, nil
}

func (s *store) letGo(pieces []*piece) {
	s.mu.Lock()
	for _, p := range pieces {
		p.users--
	}
	s.mu.Unlock()
}

// inUse reports whether memory of alloc was not released.
func (s *store) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces := 0
	for _, a := range s.areas {
		pieces += len(a.pieces)
	}
	return pieces > s.lost
}

// giveUp removes all areas from lnetd. They are unused. lnetd releases the rest when the connection ends.
func (s *store) giveUp() {
	s.mu.Lock()
	areas := slices.Clone(s.areas)
	s.mu.Unlock()
	for _, a := range areas {
		if s.del(a.id) != nil {
			return
		}
	}
}

// close unmaps the remaining areas.
func (s *store) close() error {
	s.mu.Lock()
	areas := s.areas
	s.areas, s.bytes = nil, 0
	s.mu.Unlock()
	var err error
	for _, a := range areas {
		if e := a.close(); e != nil {
			err = e
		}
	}
	return err
}
