package remote

import (
	"context"
	"sync"
)

// maxExchanged is how many ranges of memory of a process are ever exchanged for pages of areas.
// Each leaves up to two mappings more than there were, since Linux does not join pages that have
// moved with those beside them, and ends a process that needs more than 65530 (vm.max_map_count).
// A range that was exchanged before leaves no more.
const maxExchanged = 1024

// place is memory of the program whose pages are those of a piece of the store.
type place struct {
	bytes []byte // of the program
	piece []byte // the same memory in its area
	users int    // buffers
}

// extent is a range of memory of the process.
type extent struct {
	at uintptr
	n  int
}

func extentOf(b []byte) extent { return extent{address(b), len(b)} }

// exchange is what the domains of a process have exchanged, of which there is one.
type exchange struct {
	back func(b []byte) error // mapPrivate

	mu     sync.Mutex // guards the rest, and the places of all stores; held while pages are exchanged
	ranges map[extent]struct{}

	// writing is held by a goroutine that exchanges pages, and read-locked by one that copies
	// into memory of the program, which may be the same.
	writing sync.RWMutex
}

// ofProcess is the exchange of all domains.
var ofProcess = newExchange()

func newExchange() *exchange {
	return &exchange{back: mapPrivate, ranges: make(map[extent]struct{})}
}

// place returns the place of exactly b, with one more user: the one that there is, or a new one.
// It is nil, and so may err be, if the pages of b cannot be exchanged: parts of pages, memory of a
// file, what overlaps another place, or one range too many.
func (s *store) place(ctx context.Context, b []byte) (*place, error) {
	x := s.exchange
	x.mu.Lock()
	p, may := s.placed(b), s.exchangeable(b)
	x.mu.Unlock()
	if p != nil || !may {
		return p, nil
	}
	piece, err := s.alloc(ctx, len(b)) // asks lnetd, so nothing is locked
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	if p = s.placed(b); p == nil {
		p = s.adopt(b, piece)
	}
	x.mu.Unlock()
	if p == nil || address(p.piece) != address(piece) {
		_ = s.release(piece) // it is there, and no buffer has a part of it
	}
	return p, nil
}

// placed is the place of exactly b, with one more user; nil if there is none. exchange.mu is held.
func (s *store) placed(b []byte) *place {
	p := s.places[extentOf(b)]
	if p != nil {
		p.users++
	}
	return p
}

// exchangeable reports whether the pages of b may be exchanged if they are private. exchange.mu
// is held.
func (s *store) exchangeable(b []byte) bool {
	_, known := s.exchange.ranges[extentOf(b)]
	return int(address(b))%s.page == 0 && len(b)%s.page == 0 && (known || len(s.exchange.ranges) < maxExchanged)
}

// adopt has the pages of b be those of piece, if they can; else it returns nil. exchange.mu is held.
func (s *store) adopt(b, piece []byte) *place {
	at := address(b)
	if !s.exchangeable(b) || !private(at, at+uintptr(len(b))) {
		return nil
	}
	fd, offset := s.file(piece)
	x := s.exchange
	x.writing.Lock()
	copy(piece, b)
	err := mapOver(b, fd, offset)
	x.writing.Unlock()
	if err != nil {
		return nil
	}
	p := &place{bytes: b, piece: piece, users: 1}
	s.places[extentOf(b)], x.ranges[extentOf(b)] = p, struct{}{}
	return p
}

// leave has a place have a user less. The last one gives the program its memory back. If the
// system cannot do that, since the process has too many mappings or too little memory, the program
// keeps the pages, which are of an area and serve no other buffer: what is registered there later
// is copied.
func (s *store) leave(p *place) {
	x := s.exchange
	x.mu.Lock()
	p.users--
	if p.users > 0 {
		x.mu.Unlock()
		return
	}
	delete(s.places, extentOf(p.bytes))
	x.writing.Lock()
	err := x.back(p.bytes)
	x.writing.Unlock()
	x.mu.Unlock()
	if err != nil {
		s.mu.Lock()
		s.lost++
		s.mu.Unlock()
		return
	}
	_ = s.release(p.piece) // it is there, and no buffer has a part of it
}
