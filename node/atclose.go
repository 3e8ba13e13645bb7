package node

import "sync"

// AtClose has Close call f, once, when no new request is taken and no MD has gone yet:
// what f unlinks has its last event, as ever, when the drivers are through with it.
// Of what is attached later, or left, nobody hears. If that moment has passed, AtClose
// calls f; nil is nothing. F must not block, or wait for the node; handlers may run in
// it. Forget takes it back, and does not wait for an f that runs.
func (n *Node) AtClose(f func()) (forget func()) { return n.made().endings.add(f) }

// endings are what AtClose was given.
type endings struct {
	mu    sync.Mutex // a leaf; guards the rest
	calls map[*func()]struct{}
	over  bool
}

func (e *endings) add(f func()) (forget func()) {
	e.mu.Lock()
	over := e.over
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

// run calls what there is, the first time.
func (e *endings) run() {
	e.mu.Lock()
	calls := e.calls
	e.calls, e.over = nil, true
	e.mu.Unlock()
	for f := range calls {
		if *f != nil {
			(*f)()
		}
	}
}
