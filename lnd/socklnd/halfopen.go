package socklnd

import (
	"net/netip"
	"sync"
)

// halfOpen limits the connections that have not completed their HELLO, in total and per source address.
// Above a limit, the oldest connection is evicted: of the same source, or of the source with the most.
// A well-behaved caller needs little time, and so gets in even if others stay silent.
type halfOpen struct {
	total, perSource int

	mu      sync.Mutex // guards the fields below, and newcomer.evicted
	count   int
	entered uint64
	sources map[netip.Addr][]*newcomer // oldest first
}

// newcomer is an inbound connection that has not completed its HELLO.
type newcomer struct {
	stream Stream
	source netip.Addr
	via    *acceptor
	number uint64 // order of arrival
	// evicted is why the connection was closed before it was accepted. It is guarded by halfOpen.mu
	// until leave has been called.
	evicted error
}

func newHalfOpen(total, perSource int) halfOpen {
	return halfOpen{total: total, perSource: perSource, sources: make(map[netip.Addr][]*newcomer)}
}

// enter adds a connection, and evicts another if there are too many.
func (h *halfOpen) enter(via *acceptor, s Stream) *newcomer {
	n := &newcomer{stream: s, source: s.RemoteAddr().Addr(), via: via}
	h.mu.Lock()
	h.entered++
	n.number = h.entered
	var victim *newcomer
	switch {
	case len(h.sources[n.source]) >= h.perSource:
		victim = h.sources[n.source][0]
	case h.count >= h.total:
		victim = h.sources[h.greediest()][0]
	}
	if victim != nil {
		h.remove(victim)
		victim.evicted = errStrangers
	}
	h.sources[n.source] = append(h.sources[n.source], n)
	h.count++
	h.mu.Unlock()
	if victim != nil {
		_ = victim.stream.Close() // its goroutine then ends
	}
	return n
}

// evict closes the connection that is next to be evicted, if any. It frees a descriptor when none is
// left.
func (h *halfOpen) evict() {
	h.mu.Lock()
	var victim *newcomer
	if h.count > 0 {
		victim = h.sources[h.greediest()][0]
		h.remove(victim)
		victim.evicted = errStrangers
	}
	h.mu.Unlock()
	if victim != nil {
		_ = victim.stream.Close()
	}
}

// leave removes a connection that has completed its HELLO or has ended. It returns false if the
// connection has been evicted.
func (h *halfOpen) leave(n *newcomer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(n)
}

// clear closes the connections that came through an acceptor.
func (h *halfOpen) clear(via *acceptor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.sources {
		for _, n := range list {
			if n.via == via {
				n.evicted = errClosing
				_ = n.stream.Close()
			}
		}
	}
}

func (h *halfOpen) remove(n *newcomer) bool {
	list := h.sources[n.source]
	for k, o := range list {
		if o != n {
			continue
		}
		if list = append(list[:k], list[k+1:]...); len(list) == 0 {
			delete(h.sources, n.source)
		} else {
			h.sources[n.source] = list
		}
		h.count--
		return true
	}
	return false
}

// greediest returns the source with the most half-open connections. Among equals, it returns the one
// that has waited longest.
func (h *halfOpen) greediest() netip.Addr {
	var most netip.Addr
	n, oldest := 0, uint64(0)
	for a, list := range h.sources {
		if len(list) > n || len(list) == n && list[0].number < oldest {
			most, n, oldest = a, len(list), list[0].number
		}
	}
	return most
}
