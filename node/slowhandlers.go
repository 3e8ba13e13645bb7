package node

import "sync"

// slowCalls manages the goroutines for slow handlers, that is, handlers whose events
// arrive faster than they are handled. Without them, a slow handler would occupy a
// driver's goroutine indefinitely. Node.Close waits for these goroutines.
type slowCalls struct {
	mu    sync.Mutex // guards count and idle
	count int
	idle  chan struct{} // closed when count becomes 0; nil unless done was called meanwhile
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

// done returns a channel that is closed as soon as no such goroutine is running.
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
