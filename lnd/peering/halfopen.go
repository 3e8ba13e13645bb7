package peering

import (
	"errors"
	"net/netip"
	"sync"

	"github.com/lnetd/lnetd/lnd"
)

var errEvicted = &lnd.RefusedError{Reason: lnd.RefusedMany, Err: errors.New("too many callers that do not complete the handshake")}

// HalfOpen limits the number of callers whose handshake is not complete, in total and per source address. A
// caller above the limit of its source evicts the oldest caller of the same source. A caller above the total
// evicts the oldest caller of the source that has the most. A well-behaved caller completes its handshake
// quickly, so it usually gets a connection even if other callers stay silent. C is the driver's type of
// connections. HalfOpen closes no connection; its user closes those of evicted callers. It is safe for
// concurrent use.
type HalfOpen[C any] struct {
	total, perSource int

	mu      sync.Mutex                    // guards the fields below, and the fields of each Newcomer
	count   int                           // callers in the table
	entered uint64                        // calls of Enter so far
	sources map[netip.Addr][]*Newcomer[C] // callers by address, each list with the oldest first
}

// Newcomer is a caller in a HalfOpen, with its connection.
type Newcomer[C any] struct {
	Conn C

	source  netip.Addr
	number  uint64 // order of arrival
	evicted error  // why the caller was evicted; nil if it was not
}

// NewHalfOpen returns an empty table with the given limits, which must be at least 1.
func NewHalfOpen[C any](total, perSource int) *HalfOpen[C] {
	return &HalfOpen[C]{total: total, perSource: perSource, sources: make(map[netip.Addr][]*Newcomer[C])}
}

// Enter adds a caller with the connection c and returns its Newcomer n. If that exceeds a limit, Enter evicts
// another caller and returns it as evicted; its connection must then be closed. Otherwise evicted is nil.
func (h *HalfOpen[C]) Enter(c C, source netip.Addr) (n, evicted *Newcomer[C]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case len(h.sources[source]) >= h.perSource:
		evicted = h.evict(source)
	case h.count >= h.total:
		evicted = h.evict(h.largestSource())
	}
	h.entered++
	n = &Newcomer[C]{Conn: c, source: source, number: h.entered}
	h.sources[source] = append(h.sources[source], n)
	h.count++
	return n, evicted
}

// Evict evicts and returns the oldest caller of the source that has the most. The connection must then be
// closed. Evict returns nil if the table is empty.
func (h *HalfOpen[C]) Evict() *Newcomer[C] {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return nil
	}
	return h.evict(h.largestSource())
}

// Leave removes a caller whose handshake is complete or has ended. If the caller was evicted before, Leave
// returns the reason, also when it is called again. Otherwise it returns nil.
func (h *HalfOpen[C]) Leave(n *Newcomer[C]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(n)
	return n.evicted
}

// Clear evicts the callers for which match returns true, with why as the reason, and returns them. Their
// connections must then be closed. match is called with the table locked.
func (h *HalfOpen[C]) Clear(match func(C) bool, why error) (evicted []*Newcomer[C]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.sources {
		for _, n := range list {
			if match(n.Conn) {
				evicted = append(evicted, n)
			}
		}
	}
	for _, n := range evicted {
		h.remove(n)
		n.evicted = why
	}
	return evicted
}

// Len returns the number of callers in total, and the number of callers of the source that has the most.
func (h *HalfOpen[C]) Len() (total, perSource int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, list := range h.sources {
		perSource = max(perSource, len(list))
	}
	return h.count, perSource
}

// evict evicts and returns the oldest caller of a source, which must have one. mu is held.
func (h *HalfOpen[C]) evict(source netip.Addr) *Newcomer[C] {
	n := h.sources[source][0]
	h.remove(n)
	n.evicted = errEvicted
	return n
}

// remove removes a caller if it is in the table. mu is held.
func (h *HalfOpen[C]) remove(n *Newcomer[C]) {
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
		return
	}
}

// largestSource returns the source with the most callers. If several sources have the same number, it returns
// the source whose oldest caller has waited longest. mu is held.
func (h *HalfOpen[C]) largestSource() netip.Addr {
	var most netip.Addr
	n, oldest := 0, uint64(0)
	for a, list := range h.sources {
		if len(list) > n || len(list) == n && list[0].number < oldest {
			most, n, oldest = a, len(list), list[0].number
		}
	}
	return most
}
