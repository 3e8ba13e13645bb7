package node

import "sync"

// slowHandlers are goroutines that run handlers whose events came faster than they are
// handled: a driver's goroutine shall not run them for ever. Close waits for
// them.
type slowHandlers struct {
	mu    sync.Mutex // guards count and idle
	count int
	idle  chan struct{} // closed when count is 0 again; nil if nobody waits
}

// run has f run in a goroutine of its own.
func (h *slowHandlers) run(f func()) {
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

// done is closed when no such goroutine is left.
func (h *slowHandlers) done() <-chan struct{} {
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
