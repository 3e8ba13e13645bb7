package peering

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Interfaces are those that a driver has open, each NID once. The zero value has none. It
// may be used concurrently.
type Interfaces[I any] struct {
	mu     sync.Mutex // guards the rest
	closed bool
	open   map[lnet.NID]I
}

// Enter adds one; lnd.ErrExists if there is one with the NID, lnd.ErrClosed after Close.
func (t *Interfaces[I]) Enter(nid lnet.NID, i I) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return lnd.ErrClosed
	}
	if _, exists := t.open[nid]; exists {
		return fmt.Errorf("nid %s: %w", nid, lnd.ErrExists)
	}
	if t.open == nil {
		t.open = make(map[lnet.NID]I)
	}
	t.open[nid] = i
	return nil
}

// Leave takes one out.
func (t *Interfaces[I]) Leave(nid lnet.NID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, nid)
}

// Find returns the one with exactly this NID; the zero I if there is none.
func (t *Interfaces[I]) Find(nid lnet.NID) I {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[nid]
}

// Len is how many there are.
func (t *Interfaces[I]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Close lets none in any more. The error is that some are still open.
func (t *Interfaces[I]) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if n := len(t.open); n > 0 {
		return fmt.Errorf("%d interfaces are open", n)
	}
	return nil
}
