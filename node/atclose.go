package node

import "sync"

// AtClose registers f to be called once, when Close has stopped the node from accepting
// requests and all MDs still exist. If f unlinks an MD, the MD's last event is delivered
// as usual, when no driver uses the MD any more. MDs that f leaves, or that are attached
// later, end without an event. If Close has called the registered functions already,
// AtClose calls f itself. A nil f is ignored.
//
// f must not block or wait for the node. Calls in f, such as Unlink, may run handlers. The
// function that AtClose returns cancels the registration; it does not wait for f if f is
// running.
func (n *Node) AtClose(f func()) (forget func()) {
	if !n.isMade() {
		return func() {}
	}
	return n.endings.add(f)
}

// endings holds the functions registered with AtClose.
type endings struct {
	mu     sync.Mutex // a leaf lock; guards calls and closed
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

// run calls the registered functions, once. After that, add calls its function immediately
// instead of registering it.
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
