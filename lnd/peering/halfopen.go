package peering

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

var errEvicted = &lnd.RefusedError{Reason: lnd.RefusedMany, Err: errors.New("too many callers that do not complete the handshake")}

// When the table is full, a driver may let the next callers wait instead of evicting others (HalfOpen.AwaitRoom), but
// only while callers complete their handshakes, the last one at most stormPause ago, and only for the sake of callers
// that entered less than handshakeGrace ago. So many well-behaved callers that come at the same time are served one
// after the other, and silent callers delay none of them for longer.
//
// Both times are measured by HalfOpen.waited. It advances by at most waitStep for each wait of that length, however
// late the process wakes up. So a process that gets little processor time has several occasions to read what callers
// have sent before it concludes that they are silent.
const (
	stormPause     = 20 * time.Millisecond
	handshakeGrace = time.Second
	waitStep       = 5 * time.Millisecond
)

// HalfOpen limits the number of callers whose handshake is not complete, in total and per source address. A
// caller above the limit of its source evicts the oldest caller of the same source. A caller above the total
// evicts the oldest caller of the source that has the most. A well-behaved caller completes its handshake
// quickly, so it usually gets a connection even if other callers stay silent. C is the driver's type of
// connections. HalfOpen closes no connection; its user closes those of evicted callers. It is safe for
// concurrent use.
type HalfOpen[C any] struct {
	total, perSource int
	left             chan struct{} // has a token if a caller may have left since the last receive

	mu      sync.Mutex                    // guards the fields below, and the fields of each Newcomer
	count   int                           // callers in the table
	entered uint64                        // calls of Enter so far
	waiting int                           // calls of AwaitRoom that wait
	waited  time.Duration                 // how long AwaitRoom has waited so far
	storm   time.Duration                 // the value of waited up to which callers need not be evicted
	sources map[netip.Addr][]*Newcomer[C] // callers by address, each list with the oldest first
}

// Newcomer is a caller in a HalfOpen, with its connection.
type Newcomer[C any] struct {
	Conn C

	source  netip.Addr
	number  uint64        // order of arrival
	grace   time.Duration // the value of HalfOpen.waited up to which other callers wait for this one
	evicted error         // why the caller was evicted; nil if it was not
}

// NewHalfOpen returns an empty table with the given limits, which must be at least 1.
func NewHalfOpen[C any](total, perSource int) *HalfOpen[C] {
	return &HalfOpen[C]{total: total, perSource: perSource, left: make(chan struct{}, 1), sources: make(map[netip.Addr][]*Newcomer[C])}
}

// AwaitRoom waits until the table has room for a caller of any source, or until no caller has completed its handshake
// for a while, or until the caller that would be evicted has had enough time, or until done is closed. A driver that
// can leave callers in a queue of the system calls it before it takes the next one from there.
func (h *HalfOpen[C]) AwaitRoom(done <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting++
	defer func() { h.waiting-- }()
	for wait := h.patience(); wait > 0; wait = h.patience() {
		h.mu.Unlock()
		began := time.Now()
		ended := false
		select {
		case <-h.left:
		case <-time.After(wait):
		case <-done:
			ended = true
		}
		took := min(wait, time.Since(began))
		h.mu.Lock()
		share := time.Duration(h.waiting) // others that wait add the rest
		h.waited += (took + share - 1) / share
		if ended {
			return
		}
	}
}

// patience returns how long AwaitRoom waits, at most waitStep, if no caller leaves. mu is held.
func (h *HalfOpen[C]) patience() time.Duration {
	if h.count < h.total || h.waited >= h.storm {
		return 0
	}
	oldest := h.sources[h.largestSource()][0]
	return min(waitStep, h.storm-h.waited, oldest.grace-h.waited)
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
	n = &Newcomer[C]{Conn: c, source: source, number: h.entered, grace: h.waited + handshakeGrace}
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

// Complete is Leave for a caller that has completed its handshake. If a caller leaves otherwise, that does not make
// AwaitRoom wait.
func (h *HalfOpen[C]) Complete(n *Newcomer[C]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.evicted == nil {
		h.storm = h.waited + stormPause
	}
	return h.leave(n)
}

// Leave removes a caller whose handshake is complete or has ended. If the caller was evicted before, Leave
// returns the reason, also when it is called again. Otherwise it returns nil.
func (h *HalfOpen[C]) Leave(n *Newcomer[C]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leave(n)
}

// leave implements Leave. mu is held.
func (h *HalfOpen[C]) leave(n *Newcomer[C]) error {
	if h.remove(n) {
		select {
		case h.left <- struct{}{}:
		default:
		}
	}
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

// remove removes a caller, and reports whether it was in the table. mu is held.
func (h *HalfOpen[C]) remove(n *Newcomer[C]) bool {
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
