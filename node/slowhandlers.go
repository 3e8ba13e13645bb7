package node

import "sync"

// slowCalls manages goroutines for handlers whose events arrive faster than they are
// handled, so that a driver's goroutine does not run them indefinitely. Close waits for
// these goroutines.
type slowCalls struct {
	mu    sync.Mutex // guards count and idle
	count int
	idle  chan struct{} // closed when count is 0 again; nil if not needed
}

// run runs f in a new goroutine.
func (h *slowCalls) run(f func()) {
	h.mu.Lock()
	h.count++
	h.mu.Unlock()
	go func() {
		f()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.count--
		if h.count == 0 && h.idle != nil {
			close(h.idle)
			h.idle = nil
		}
	}()
}

// done returns a channel that is closed when none of these goroutines is left.
func (h *slowCalls) done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	idle := h.idle
	if idle == nil {
		idle = make(chan struct{})
		if h.count == 0 {
			close(idle)
			return idle
		}
		h.idle = idle
	}
	return idle
}
