package node

import "sync"

// AtClose registers f, which Close calls once, when the node accepts no new requests and
// all MDs still exist. If f unlinks an MD, its last event is delivered as usual, when the
// drivers no longer use it. MDs that remain, or are attached later, end without an event.
// If that moment has passed, AtClose calls f itself. A nil f does nothing.
//
// f must not block or wait for the node. Handlers may run within it. The returned
// function removes f; it does not wait if f is running.
func (n *Node) AtClose(f func()) (forget func()) {
	if !n.isMade() {
		return func() {}
	}
	return n.endings.add(f)
}

// endings holds the functions registered with AtClose.
type endings struct {
	mu     sync.Mutex // a leaf; guards the rest
	calls  map[*func()]struct{}
	closed bool
}

func (e *endings) add(f func()) (forget func()) {
	e.mu.Lock()
	over := e.closed
	if !over {
		if e.calls == nil {
			e.calls = make(map[*func()]struct{})
		}
		e.calls[&f] = struct{}{}
	}
	e.mu.Unlock()
	if over && f != nil {
		f()
	}
	return func() {
		e.mu.Lock()
		delete(e.calls, &f)
		e.mu.Unlock()
	}
}

// run calls the registered functions. Later calls do nothing.
func (e *endings) run() {
	e.mu.Lock()
	calls := e.calls
	e.calls, e.closed = nil, true
	e.mu.Unlock()
	for f := range calls {
		if *f != nil {
			(*f)()
		}
	}
}
