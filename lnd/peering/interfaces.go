package peering

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Interfaces is the table of a driver's open interfaces, by NID. The zero value is empty. It is safe
// for concurrent use.
type Interfaces[I any] struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[lnet.NID]I
}

// Enter adds an interface. It returns lnd.ErrExists if the NID is in use, and lnd.ErrClosed after
// Close.
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

// Leave removes an interface.
func (t *Interfaces[I]) Leave(nid lnet.NID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, nid)
}

// Find returns the interface with exactly this NID, or the zero I.
func (t *Interfaces[I]) Find(nid lnet.NID) I {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[nid]
}

// Len returns the number of interfaces.
func (t *Interfaces[I]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// Close makes later calls of Enter fail. It returns an error if interfaces are still open.
func (t *Interfaces[I]) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if n := len(t.open); n > 0 {
		return fmt.Errorf("%d interfaces are open", n)
	}
	return nil
}
