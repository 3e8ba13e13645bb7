package remote

import (
	"context"
	"sync"
)

// maxExchanged is the maximum number of different memory ranges that a process may ever exchange for pages of
// areas. Each exchange leaves up to two additional mappings, because Linux does not merge moved pages with
// their neighbours. A process that needs more than 65530 mappings fails (vm.max_map_count). Exchanging a
// known range again adds no mappings.
const maxExchanged = 1024

// place is memory of the program whose pages were exchanged: they belong to a piece of the store.
type place struct {
	bytes []byte // the memory at the program's address
	piece []byte // the same memory at its address in the area
	users int    // number of buffers that use it
}

// extent is a range of memory of the process.
type extent struct {
	start  uintptr
	length int
}

func extentOf(b []byte) extent { return extent{address(b), len(b)} }

// exchange records which memory ranges of the process were exchanged, for all domains. There is one instance,
// processExchange. Exchanging a range replaces its pages in place by pages of an area with the same content.
type exchange struct {
	restorePages func(b []byte) error // restorePrivate, unless a test replaces it

	mu     sync.Mutex // guards ranges and the places of all stores; held while pages are exchanged
	ranges map[extent]struct{}

	// copyLock is locked while pages are exchanged. It is read-locked while data are copied into memory of
	// the program, which may be on the same pages.
	copyLock sync.RWMutex
}

// processExchange is the exchange of all domains.
var processExchange = newExchange()

func newExchange() *exchange {
	return &exchange{restorePages: restorePrivate, ranges: make(map[extent]struct{})}
}

// acquirePlace returns the place of exactly b, and adds a user to it. If b has no place yet, it exchanges the
// pages of b. It returns nil, possibly with a nil error, if they cannot be exchanged: partial pages, memory
// of a file, overlap with another place, or too many ranges.
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

// findPlace returns the place of exactly b, and adds a user to it. It returns nil if b has no place.
// exchange.mu is held.
func (s *store) findPlace(b []byte) *place {
	p := s.places[extentOf(b)]
	if p != nil {
		p.users++
	}
	return p
}

// exchangeable reports whether b consists of whole pages and the number of exchanged ranges permits to
// exchange it. It does not check that the pages are private. exchange.mu is held.
func (s *store) exchangeable(b []byte) bool {
	_, known := s.exchange.ranges[extentOf(b)]
	return int(address(b))%s.page == 0 && len(b)%s.page == 0 && (known || len(s.exchange.ranges) < maxExchanged)
}

// exchangePages replaces the pages of b by those of piece. It returns nil if that is not possible.
// exchange.mu is held.
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

// releasePlace removes a user of a place. If it was the last one, releasePlace gives the program private
// pages again. That fails if the process has too many mappings or too little memory. The program then keeps
// the pages of the area, which are not used for other buffers. Data of buffers registered in them later are
// copied.
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
