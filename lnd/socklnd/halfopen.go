package socklnd

import (
	"net/netip"
	"sync"
)

// halfOpen bounds the connections that have not introduced themselves, in all
// and per source address. When there are too many the oldest goes, of the same
// source or of the source that has most: who comes in good faith needs a
// moment only, and so gets in while others sit and say nothing.
type halfOpen struct {
	total, perSource int

	mu      sync.Mutex // guards what follows, and newcomer.evicted
	count   int
	entered uint64
	sources map[netip.Addr][]*newcomer // oldest first
}

// newcomer is a connection that has not introduced itself.
type newcomer struct {
	stream Stream
	source netip.Addr
	via    *acceptor
	number uint64 // in the order of arrival
	// evicted is why it had to go before it was through, guarded by halfOpen.mu
	// until it has left.
	evicted error
}

func newHalfOpen(total, perSource int) halfOpen {
	return halfOpen{total: total, perSource: perSource, sources: make(map[netip.Addr][]*newcomer)}
}

// enter takes a connection in, and closes another if there are too many.
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
		_ = victim.stream.Close() // its goroutine ends by itself
	}
	return n
}

// evict closes the connection that would go if there were too many, if there is one: it makes
// room when descriptors run out.
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

// leave takes a connection out: it has introduced itself or gone. False means
// that it had to go before.
func (h *halfOpen) leave(n *newcomer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.remove(n)
}

// clear closes those that came through an acceptor.
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

// greediest returns the source with most half-open connections, of several the
// one that has waited longest.
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
