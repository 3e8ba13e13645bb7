package peering

import "sync"

// Outbox makes upcalls and completions one after the other, in the order in which they were put in.
// The goroutine that runs it first also makes those that are added meanwhile. So if a completion sends
// again and fails again, the result is iteration, not recursion. It is safe for concurrent use.
type Outbox struct {
	// Make makes one of them. It is called without locks held, by one goroutine at a time. It must be
	// set before the first use.
	Make func(*Event)

	mu      sync.Mutex // guards the fields below
	idle    sync.Cond
	queue   []Event
	spare   []Event // the memory of an earlier queue
	running bool
}

// Put adds events without making them. The caller calls Run later. Locks may be held: what is put
// under a lock is made in the order of the decisions that the lock orders.
func (o *Outbox) Put(list ...Event) {
	if len(list) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, list...)
}

// Add is Put and Run.
func (o *Outbox) Add(list ...Event) {
	if len(list) == 0 {
		return
	}
	o.Put(list...)
	o.Run()
}

// Run makes the events, unless another goroutine is doing so. No lock is held.
func (o *Outbox) Run() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running {
		return
	}
	o.running = true
	for len(o.queue) > 0 {
		list := o.queue
		o.queue, o.spare = o.spare[:0], nil
		o.mu.Unlock()
		for k := range list {
			o.Make(&list[k])
		}
		clear(list)
		o.mu.Lock()
		o.spare = list
	}
	o.running = false
	if o.idle.L != nil {
		o.idle.Broadcast()
	}
}

// Wait makes the events that are left, and returns when no event is being made. It must not be called
// from Make.
func (o *Outbox) Wait() {
	o.Run()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle.L == nil {
		o.idle.L = &o.mu
	}
	for o.running {
		o.idle.Wait()
	}
}
