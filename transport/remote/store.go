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

// store is the memory of a domain that lnetd has mapped, too: areas, of which Alloc gives
// pieces, since a connection may have few areas and many buffers. An area is at least
// firstArea bytes, and a quarter of what there is already, so that the quotas of areas and
// of bytes are used up at the same pace.
type store struct {
	connection *connection
	page       int
	// forget has lnetd forget what it knows of an area that is to go.
	forget func(area uint32)
	// growing is held by who makes an area, so that two who need one do not make two.
	growing  chan struct{}
	exchange *exchange
	places   map[extent]*place // guarded by exchange.mu
	copyMost int               // bounds copied

	mu     sync.Mutex // guards the rest
	areas  []*area    // by address
	bytes  int        // of all of them
	copied int        // bytes of all copies
	lost   int        // pieces whose pages the program has for good
}

// area is memory that both have mapped.
type area struct {
	id     uint32
	memory *shm.Memory
	fd     int
	bytes  []byte
	at     uintptr
	pieces []*piece // that Alloc has given, by address
	free   []run    // the rest, by place, none beside another
	// fresh is where begins what nobody has had.
	fresh int
}

// run is length bytes of an area.
type run struct{ at, length int }

// piece is what Alloc has given: a run of whole pages, of which length bytes were asked for.
type piece struct {
	run
	asked int
	// users is how many segments of buffers lie here.
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

// alloc gives n bytes of zeroed memory.
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
	b, _ := a.cut(n, pages) // which nobody else has had
	s.mu.Unlock()
	return b, nil
}

// take gives memory of an area that there is, nil if none has so much in one piece.
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

// cut gives memory of the area, of which the first bytes may have been used.
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

// find is where the piece that begins at a place of the area is, or would be, in pieces.
func (a *area) find(at int) (int, bool) {
	return slices.BinarySearchFunc(a.pieces, at, func(p *piece, at int) int { return p.at - at })
}

// search is where the area that begins at an address is, or would be. mu is held.
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

// grow makes an area of at least so many bytes.
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

// add makes an area of so many bytes, and hands it to lnetd.
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
		_ = a.close() // it is mapped
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

// undoAdd is for an area that nobody waits for any more.
func (s *store) undoAdd(a *call) {
	var reply protocol.AreaAddReply
	if s.connection.decode(a, &reply) == nil {
		_ = s.del(reply.Area) // if lnetd refuses, there is nothing to be done
	}
}

// del has lnetd forget an area, of which no buffer has a part.
func (s *store) del(id uint32) error {
	s.forget(id)
	return s.connection.insist(&protocol.AreaDel{Area: id}, &protocol.Empty{})
}

// around is the piece that b lies in, with its area; nil if there is none. mu is held.
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

// release takes back what alloc gave. EINVAL: b is not that; EBUSY: a buffer has a part of
// it. An area of which nothing is left goes, unless it is the only one of its kind: the
// next alloc has it then.
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
		return nil // it is free, and there for the next one
	}
	return a.close()
}

// remove takes an area off the list. mu is held.
func (s *store) remove(a *area) {
	i := s.search(a.at)
	s.areas = slices.Delete(s.areas, i, i+1)
	s.bytes -= len(a.bytes)
}

// giveBack has the area be free where a piece was.
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

// hold names segments by the areas that they lie in, which they keep until letGo, within
// limits. EINVAL: one lies in other memory; EFBIG.
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

// inUse tells whether alloc has given anything that was not released.
func (s *store) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	pieces := 0
	for _, a := range s.areas {
		pieces += len(a.pieces)
	}
	return pieces > s.lost
}

// giveUp has lnetd forget all areas, of which nothing is in use. What it does not forget it
// frees when the connection ends.
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

// close unmaps what is left.
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
