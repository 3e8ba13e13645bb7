package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// scrapers limits the number of concurrent scrapes, in total and per client address. A client that reads
// slowly therefore prevents only scrapes from its own address.
type scrapers struct {
	mu    sync.Mutex // guards count and from
	count int
	from  map[string]int // number of scrapes in progress, by client address

	refused atomic.Uint64 // number of scrapes that were refused
}

// bounds limit the number of concurrent requests. Requests for /healthz and /readyz are counted separately, so that slow
// scrapers do not make lnetd look unhealthy.
type bounds struct{ scrapes, probes scrapers }

// admit returns a handler that calls h. If too many requests are in progress, the handler refuses the request with the
// status 429 instead. It is not 503, which means for /healthz and /readyz that the node has a problem.
func (b *bounds) admit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &b.scrapes
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			s = &b.probes
		}
		address := addressOf(r.RemoteAddr)
		if !s.acquire(address) {
			s.refused.Add(1)
			http.Error(w, "too many requests at once, try again later", http.StatusTooManyRequests)
			return
		}
		defer s.release(address)
		h.ServeHTTP(w, r)
	})
}

// bounded is a handler that calls next, and limits the number of concurrent requests.
type bounded struct {
	bounds
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.admit(b.next).ServeHTTP(w, r) }

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
