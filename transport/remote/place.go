package remote

import (
	"context"
	"sync"
)

// maxExchanged is the maximum number of memory ranges of a process that are ever exchanged for pages of
// areas. Each leaves up to two additional mappings, because Linux does not merge pages that have moved with
// their neighbours. A process that needs more than 65530 mappings fails (vm.max_map_count). Exchanging a
// known range again adds no mappings.
const maxExchanged = 1024

// place is memory of the program whose pages belong to a piece of the store.
type place struct {
	bytes []byte // of the program
	piece []byte // the same memory in its area
	users int    // number of buffers
}

// extent is a range of memory of the process.
type extent struct {
	start  uintptr
	length int
}

func extentOf(b []byte) extent { return extent{address(b), len(b)} }

// exchange records the exchanged ranges of all domains of a process. There is one instance.
type exchange struct {
	restorePages func(b []byte) error // restorePrivate; tests replace it

	mu     sync.Mutex // guards ranges, and the places of all stores; held while pages are exchanged
	ranges map[extent]struct{}

	// copyLock is locked while pages are exchanged, and read-locked while data is copied into memory of the
	// program, which may be on the same pages.
	copyLock sync.RWMutex
}

// processExchange is the exchange of all domains.
var processExchange = newExchange()

func newExchange() *exchange {
	return &exchange{restorePages: restorePrivate, ranges: make(map[extent]struct{})}
}

// acquirePlace returns the place of exactly b, an existing or a new one, and adds a user. It returns nil, possibly
// with a nil error, if the pages of b cannot be exchanged: partial pages, memory of a file, overlap with
// another place, or too many ranges.
func (s *store) acquirePlace(ctx context.Context, b []byte) (*place, error) {
	x := s.exchange
	x.mu.Lock()
	p, may := s.findPlace(b), s.exchangeable(b)
	x.mu.Unlock()
	if p != nil || !may {
		return p, nil
	}
	piece, err := s.alloc(ctx, len(b)) // may send a request to lnetd, so no lock is held
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	if p = s.findPlace(b); p == nil {
		p = s.exchangePages(b, piece)
	}
	x.mu.Unlock()
	if p == nil || address(p.piece) != address(piece) {
		_ = s.release(piece) // cannot fail: the memory exists and is unused
	}
	return p, nil
}

// findPlace returns the place of exactly b and adds a user. It returns nil if that does not exist. exchange.mu
// is held.
func (s *store) findPlace(b []byte) *place {
	p := s.places[extentOf(b)]
	if p != nil {
		p.users++
	}
	return p
}

// exchangeable reports whether the pages of b may be exchanged if they are private. exchange.mu is held.
func (s *store) exchangeable(b []byte) bool {
	_, known := s.exchange.ranges[extentOf(b)]
	return int(address(b))%s.page == 0 && len(b)%s.page == 0 && (known || len(s.exchange.ranges) < maxExchanged)
}

// exchangePages replaces the pages of b by those of piece. It returns nil if that is not possible. exchange.mu is
// held.
func (s *store) exchangePages(b, piece []byte) *place {
	at := address(b)
	if !s.exchangeable(b) || !privatePages(at, at+uintptr(len(b))) {
		return nil
	}
	fd, offset := s.file(piece)
	x := s.exchange
	x.copyLock.Lock()
	copy(piece, b)
	err := replacePages(b, fd, offset)
	x.copyLock.Unlock()
	if err != nil {
		return nil
	}
	p := &place{bytes: b, piece: piece, users: 1}
	s.places[extentOf(b)], x.ranges[extentOf(b)] = p, struct{}{}
	return p
}

// releasePlace removes a user of a place. The last one returns private pages to the program. That fails if the
// process has too many mappings or too little memory. Then the program keeps the pages, which stay part of
// the area and are not used for other buffers. Buffers registered in them later are copied.
func (s *store) releasePlace(p *place) {
	x := s.exchange
	x.mu.Lock()
	p.users--
	if p.users > 0 {
		x.mu.Unlock()
		return
	}
	delete(s.places, extentOf(p.bytes))
	x.copyLock.Lock()
	err := x.restorePages(p.bytes)
	x.copyLock.Unlock()
	x.mu.Unlock()
	if err != nil {
		s.mu.Lock()
		s.lostPieces++
		s.mu.Unlock()
		return
	}
	_ = s.release(p.piece) // cannot fail: the memory exists and is unused
}
