package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// scrapers limits the concurrent scrapes, in total and per address. A slow reader blocks only
// scrapes from its own address.
type scrapers struct {
	mu    sync.Mutex // guards count and from
	count int
	from  map[string]int // by address

	refused atomic.Uint64
}

// bounded is a handler that limits concurrent scrapes.
type bounded struct {
	scrapers
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.admit(b.next).ServeHTTP(w, r) }

// admit returns a handler that calls h if the limits allow it. Otherwise it asks the client to
// retry later.
func (s *scrapers) admit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := addressOf(r.RemoteAddr)
		if !s.acquire(address) {
			s.refused.Add(1)
			http.Error(w, "too many scrapes at once, try again later", http.StatusServiceUnavailable)
			return
		}
		defer s.release(address)
		h.ServeHTTP(w, r)
	})
}

func (s *scrapers) acquire(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= scrapesAtOnce || s.from[address] >= scrapesPerAddress {
		return false
	}
	if s.from == nil {
		s.from = map[string]int{}
	}
	s.count++
	s.from[address]++
	return true
}

func (s *scrapers) release(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.from[address]--; s.from[address] == 0 {
		delete(s.from, address)
	}
}
