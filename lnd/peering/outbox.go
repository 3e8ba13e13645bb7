package peering

import "sync"

// Outbox is a queue of upcalls and completions (events). It makes them one after the other, in the order in
// which they were added. While one goroutine makes events, it also makes those that other goroutines add. So if
// a completion sends a message that fails immediately, the completion of that message is made in the same loop,
// not recursively. Outbox is safe for concurrent use.
type Outbox struct {
	// Make makes one event. It is called without locks held, by one goroutine at a time. It must be set
	// before the first use.
	Make func(*Event)

	mu      sync.Mutex // guards the fields below
	idle    sync.Cond
	queue   []Event
	spare   []Event // the memory of an earlier queue
	running bool
}

// Put adds events without making them. The caller calls Run later. Put may be called with locks held. Events
// that are added under the same lock are therefore made in the order in which the lock was acquired.
func (o *Outbox) Put(list ...Event) {
	if len(list) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, list...)
}

// Add adds events and makes them. It is Put followed by Run.
func (o *Outbox) Add(list ...Event) {
	if len(list) == 0 {
		return
	}
	o.Put(list...)
	o.Run()
}

// Run makes all queued events. If another goroutine is already making events, that goroutine makes them, and
// Run returns immediately. No lock may be held.
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

// Wait makes all queued events, and waits until another goroutine that is making events has finished too. It
// must not be called from Make.
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
