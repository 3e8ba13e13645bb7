package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"unsafe"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// store manages the memory that a domain shares with lnetd. This memory consists of areas. Alloc divides them
// into pieces, because lnetd permits few areas but many buffers. A new area has at least minAreaSize bytes,
// and at least a quarter of the total size of the existing areas, so that the quotas of areas and of bytes
// are used up at the same rate.
type store struct {
	connection *connection
	page       int
	// deregisterIdle deregisters the idle registrations in an area that is about to be removed.
	deregisterIdle func(area uint32)
	// growLock holds an element while an area is being created, so that two goroutines that need memory
	// create only one.
	growLock  chan struct{}
	exchange  *exchange
	places    map[extent]*place // guarded by exchange.mu
	maxCopied int               // maximum of copied

	mu         sync.Mutex // guards the fields below
	areas      []*area    // sorted by address
	bytes      int        // total size of the areas
	copied     int        // total size of the copies of buffers that are not in shared memory
	lostPieces int        // number of pieces whose pages the program keeps forever
}

// area is memory mapped by this process and by lnetd.
type area struct {
	id       uint32
	memory   *shared.Memory
	fd       int
	bytes    []byte
	address  uintptr
	pieces   []*piece  // allocated pieces, sorted by offset
	freeRuns []pageRun // free runs, sorted by offset; adjacent runs are merged
	// unusedFrom is the offset from which on the memory was never allocated, so that it is still zero.
	unusedFrom int
}

// pageRun is a range of length bytes of an area.
type pageRun struct{ offset, length int }

// piece is an allocation in an area: a run of whole pages. requested is the length that the caller asked for.
type piece struct {
	pageRun
	requested int
	// users is the number of segments of registered buffers in the piece.
	users int
}

const minAreaSize = 1 << 20

func newStore(c *connection, page, copyMost int, x *exchange, forget func(area uint32)) *store {
	return &store{
		connection: c, page: page, maxCopied: copyMost, deregisterIdle: forget, growLock: make(chan struct{}, 1),
		exchange: x, places: make(map[extent]*place),
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// alloc returns n bytes of zeroed memory. It creates an area if needed.
func (s *store) alloc(ctx context.Context, n int) ([]byte, error) {
	if n < 1 || n > 1<<40 {
		return nil, syscall.EINVAL
	}
	pages := (n + s.page - 1) / s.page * s.page
	if b := s.allocExisting(n, pages); b != nil {
		return b, nil
	}
	select {
	case s.growLock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.growLock }()
	if b := s.allocExisting(n, pages); b != nil {
		return b, nil
	}
	a, err := s.grow(ctx, pages)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	i := s.search(a.address)
	s.areas = slices.Insert(s.areas, i, a)
	s.bytes += len(a.bytes)
	b, _ := a.alloc(n, pages) // new memory, which needs no clearing
	s.mu.Unlock()
	return b, nil
}

// allocExisting allocates n zeroed bytes from existing areas. It returns nil if no area has enough contiguous
// memory. pages is n rounded up to whole pages.
func (s *store) allocExisting(n, pages int) []byte {
	s.mu.Lock()
	var b []byte
	used := 0
	for _, a := range s.areas {
		if b, used = a.alloc(n, pages); b != nil {
			break
		}
	}
	s.mu.Unlock()
	clear(b[:used])
	return b
}

// alloc allocates n bytes of the area, or returns nil. The first used bytes of b may have been used before,
// and the caller must clear them; the rest is zero. pages is n rounded up to whole pages.
func (a *area) alloc(n, pages int) (b []byte, used int) {
	for i := range a.freeRuns {
		r := &a.freeRuns[i]
		if r.length < pages {
			continue
		}
		p := &piece{pageRun: pageRun{r.offset, pages}, requested: n}
		r.offset += pages
		if r.length -= pages; r.length == 0 {
			a.freeRuns = slices.Delete(a.freeRuns, i, i+1)
		}
		k, _ := a.find(p.offset)
		a.pieces = slices.Insert(a.pieces, k, p)
		used = min(max(a.unusedFrom-p.offset, 0), n)
		a.unusedFrom = max(a.unusedFrom, p.offset+pages)
		return a.bytes[p.offset : p.offset+n : p.offset+n], used
	}
	return nil, 0
}

// find returns the index of the piece that begins at offset at, and true. If no piece begins there, it
// returns the index at which such a piece would be inserted, and false.
func (a *area) find(at int) (int, bool) {
	return slices.BinarySearchFunc(a.pieces, at, func(p *piece, at int) int { return p.offset - at })
}

// search returns the index of the area that begins at address at. If no area begins there, it returns the
// index at which such an area would be inserted. mu is held.
func (s *store) search(at uintptr) int {
	i, _ := slices.BinarySearchFunc(s.areas, at, func(a *area, at uintptr) int {
		switch {
		case a.address < at:
			return -1
		case a.address > at:
			return 1
		}
		return 0
	})
	return i
}

// grow creates an area of at least the given size; see store for the size that it prefers.
func (s *store) grow(ctx context.Context, bytes int) (*area, error) {
	s.mu.Lock()
	generous := max(bytes, minAreaSize, s.bytes/4/s.page*s.page)
	s.mu.Unlock()
	a, err := s.add(ctx, generous)
	if err != nil && generous > bytes && ctx.Err() == nil {
		a, err = s.add(ctx, bytes)
	}
	return a, err
}

// add creates an area of the given size and requests lnetd to map it.
func (s *store) add(ctx context.Context, bytes int) (*area, error) {
	m, fd, err := shared.Create("lnetd-area", bytes)
	if err != nil {
		return nil, err
	}
	b := m.Bytes()
	a := &area{memory: m, fd: fd, bytes: b, address: address(b), freeRuns: []pageRun{{0, len(b)}}}
	var reply protocol.AreaAddReply
	err = s.connection.request(ctx, &protocol.AreaAdd{Size: uint64(len(b))}, &reply, s.undoAdd, fd)
	if err != nil {
		_ = a.close() // cannot fail: it is mapped
		return nil, err
	}
	a.id = reply.Area
	return a, nil
}

// close unmaps the area in this process and closes its file.
func (a *area) close() error {
	closeAll([]int{a.fd})
	return a.memory.Close()
}

// undoAdd removes the area of an AREA_ADD call whose caller has given up before the reply arrived.
func (s *store) undoAdd(a *call) {
	var reply protocol.AreaAddReply
	if s.connection.decode(a, &reply) == nil {
		_ = s.deleteArea(reply.Area) // an error is ignored, because there is no caller to return it to
	}
}

// deleteArea requests lnetd to remove an area. No buffer may use the area.
func (s *store) deleteArea(id uint32) error {
	s.deregisterIdle(id)
	return s.connection.requestAlways(&protocol.AreaDel{Area: id}, &protocol.Empty{})
}

// areaOf returns the piece that contains b, and the area of the piece. It returns nil if b is in no piece. mu
// is held.
func (s *store) areaOf(b []byte) (*area, *piece) {
	at := address(b)
	i := s.search(at)
	if i == len(s.areas) || s.areas[i].address != at {
		i--
	}
	if i < 0 || at-s.areas[i].address >= uintptr(len(s.areas[i].bytes)) {
		return nil, nil
	}
	a := s.areas[i]
	from := int(at - a.address)
	k, found := a.find(from)
	if !found {
		k--
	}
	if k < 0 || from+len(b) > a.pieces[k].offset+a.pieces[k].length {
		return nil, nil
	}
	return a, a.pieces[k]
}

// release frees memory that alloc has returned. It returns EINVAL if b is not such memory, and EBUSY if a
// buffer uses a part of it. If the area then has no pieces, it is removed, unless it is the only empty area,
// which is kept for the next alloc.
func (s *store) release(b []byte) error {
	s.mu.Lock()
	a, p := s.areaOf(b)
	switch {
	case p == nil || p.offset != int(address(b)-a.address) || p.requested != len(b):
		s.mu.Unlock()
		return syscall.EINVAL
	case p.users > 0:
		s.mu.Unlock()
		return syscall.EBUSY
	}
	a.free(p)
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
	if err := s.deleteArea(a.id); err != nil && !connectionEnded(err) {
		s.mu.Lock()
		s.areas = slices.Insert(s.areas, s.search(a.address), a)
		s.bytes += len(a.bytes)
		s.mu.Unlock()
		return nil // the piece is free, and the area can be used again
	}
	return a.close()
}

// remove removes an area from s.areas. mu is held.
func (s *store) remove(a *area) {
	i := s.search(a.address)
	s.areas = slices.Delete(s.areas, i, i+1)
	s.bytes -= len(a.bytes)
}

// free marks the memory of a piece as free.
func (a *area) free(p *piece) {
	k, _ := a.find(p.offset)
	a.pieces = slices.Delete(a.pieces, k, k+1)
	r := p.pageRun
	i, _ := slices.BinarySearchFunc(a.freeRuns, r.offset, func(f pageRun, at int) int { return f.offset - at })
	if i < len(a.freeRuns) && a.freeRuns[i].offset == r.offset+r.length {
		r.length += a.freeRuns[i].length
		a.freeRuns = slices.Delete(a.freeRuns, i, i+1)
	}
	if i > 0 && a.freeRuns[i-1].offset+a.freeRuns[i-1].length == r.offset {
		a.freeRuns[i-1].length += r.length
		return
	}
	a.freeRuns = slices.Insert(a.freeRuns, i, r)
}

// acquire returns the ranges of areas that segments are in, each range within limits, and their pieces. It
// marks the pieces as used until releasePieces. It returns EINVAL if a segment is in other memory, and EFBIG
// if there would be too many ranges.
func (s *store) acquire(segments [][]byte, limits *protocol.Limits) (ranges []protocol.Range, pieces []*piece, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range segments {
		a, p := s.areaOf(b)
		if p == nil || len(b) == 0 {
			return nil, nil, fmt.Errorf("memory that was not allocated from this domain: %w", syscall.EINVAL)
		}
		pieces = append(pieces, p)
		for from := int(address(b) - a.address); len(b) > 0; {
			if len(ranges) == int(limits.Segments) {
				return nil, nil, fmt.Errorf("the memory consists of more than %d ranges: %w", limits.Segments, syscall.EFBIG)
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

func (s *store) releasePieces(pieces []*piece) {
	s.mu.Lock()
	for _, p := range pieces {
		p.users--
	}
	s.mu.Unlock()
}

// inUse reports whether memory that alloc has returned was not released. Lost pieces, whose pages the program
// keeps forever, do not count.
func (s *store) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces := 0
	for _, a := range s.areas {
		pieces += len(a.pieces)
	}
	return pieces > s.lostPieces
}

// removeAllAreas requests lnetd to remove all areas, which are unused. It stops at an error; lnetd then
// releases the remaining areas when the connection ends.
func (s *store) removeAllAreas() {
	s.mu.Lock()
	areas := slices.Clone(s.areas)
	s.mu.Unlock()
	for _, a := range areas {
		if s.deleteArea(a.id) != nil {
			return
		}
	}
}

// close unmaps all areas.
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
