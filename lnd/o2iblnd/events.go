package o2iblnd

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// event is an upcall or a completion to be made.
type event struct {
	kind eventKind
	m    *lnd.Tx  // unsent message; tx is nil
	tx   *tx      // sent message
	rx   *rx      // received or withdrawn message
	err  error    // for these three
	peer lnet.NID // for the other kinds
	down lnd.PeerDown
	p    *peer
}

type eventKind uint8

const (
	evSent eventKind = iota
	evReceived
	evWithdrawn
	evLost
	evDown
	evRestarted
)

type events []event

// outbox makes upcalls and completions one after the other. The goroutine that adds the first also makes
// those that are added meanwhile. So if a completion sends again and fails again, the result is
// iteration, not recursion.
type outbox struct {
	i       *Interface
	mu      sync.Mutex // guards the fields below
	idle    sync.Cond
	queue   events
	spare   events
	running bool
}

// add adds events, and processes them unless another goroutine does.
func (o *outbox) add(list ...event) {
	if len(list) == 0 {
		return
	}
	o.mu.Lock()
	o.queue = append(o.queue, list...)
	o.mu.Unlock()
	o.run()
}

// put adds events without processing them; the caller calls run later. Locks may be held.
func (o *outbox) put(list ...event) {
	o.mu.Lock()
	o.queue = append(o.queue, list...)
	o.mu.Unlock()
}

func (o *outbox) run() {
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
			o.i.tell(&list[k])
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

// wait returns when the queue is empty and no event is being processed.
func (o *outbox) wait() {
	o.run()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle.L == nil {
		o.idle.L = &o.mu
	}
	for o.running {
		o.idle.Wait()
	}
}

// tell makes one upcall or completion. No lock is held.
func (i *Interface) tell(e *event) {
	switch e.kind {
	case evSent:
		if e.tx != nil {
			e.tx.finish(e.err)
		} else {
			e.m.Done.Sent(e.m, e.err)
		}
	case evReceived:
		e.rx.finish(e.err)
	case evWithdrawn:
		i.upper.Withdrawn(&e.rx.Rx)
		e.rx.withdrawn()
	case evLost:
		i.upper.ConnectionsLost(e.peer)
	case evDown:
		i.upper.PeerDown(e.down)
	case evRestarted:
		i.counters.peersRestarted.Add(1)
		i.upper.PeerRestarted(e.peer)
		e.p.toldRestart()
	}
}
