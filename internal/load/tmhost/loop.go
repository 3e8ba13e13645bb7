package tmhost

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
)

// A Poll loop sleeps if it has seen nothing for spinTime. It checks the time every spinBatch rounds.
const (
	spinTime  = time.Millisecond
	spinBatch = 16
)

// Loop is a started transfer machine with a goroutine. The goroutine does the posted work and, unless
// delivery is Async, calls the callbacks of buffers. It does one thing at a time.
type Loop struct {
	TM       *transport.TransferMachine
	Delivery Delivery

	after   func()
	spins   bool // before it sleeps
	channel transport.Channel
	ended   chan struct{} // closed when the goroutine has ended

	worked, blocked, byWork, byNet atomic.Uint64

	mu     sync.Mutex // guards the rest
	work   []func()
	closed bool
}

// Wakeups are the counters of a loop with delivery Sync or Poll (transport 10.1).
type Wakeups struct {
	// Worked counts rounds with something to do, Blocked those that slept first.
	Worked  uint64 `json:"worked"`
	Blocked uint64 `json:"blocked"`
	// Work and Net count wake-ups because of work and because of events.
	Work uint64 `json:"work"`
	Net  uint64 `json:"net"`
}

// Start starts a transfer machine at an address of d, and its loop. If after is not nil, the loop calls
// it after each round that had something to do. Start blocks until the machine has started or failed, or
// ctx is done.
func Start(ctx context.Context, d *transport.Domain, address string, delivery Delivery, after func()) (*Loop, error) {
	l := &Loop{Delivery: delivery, after: after, ended: make(chan struct{})}
	// On a single processor, spinning would only delay the threads that produce events.
	l.spins = delivery == Poll && runtime.GOMAXPROCS(0) > 1
	tm, err := d.NewTM(func(*transport.TMEvent) { l.channel.Signal() })
	if err != nil {
		return nil, err
	}
	l.TM = tm
	if delivery != Async {
		err = tm.DeliverSynchronously()
	}
	if err == nil {
		err = tm.Start(address)
	}
	if err == nil {
		err = tm.Await(ctx, transport.StateStarted)
	}
	go l.run()
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		return nil, errors.Join(err, l.Close(ctx))
	}
	return l, nil
}

// Post queues f for the loop and reports whether it was accepted. It returns false if the loop is closed.
// Functions run in the order in which they were posted. Post does not block.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.work = append(l.work, f)
	l.mu.Unlock()
	l.channel.Signal()
	return true
}

// ResetWakeups sets the counters to 0 and returns their previous values.
func (l *Loop) ResetWakeups() Wakeups {
	return Wakeups{Worked: l.worked.Swap(0), Blocked: l.blocked.Swap(0), Work: l.byWork.Swap(0), Net: l.byNet.Swap(0)}
}

// Wakeups returns the current counters.
func (l *Loop) Wakeups() Wakeups {
	return Wakeups{Worked: l.worked.Load(), Blocked: l.blocked.Load(), Work: l.byWork.Load(), Net: l.byNet.Load()}
}

// Address returns the address of the transfer machine.
func (l *Loop) Address() transport.Address { return l.TM.Self().Address() }

// Close aborts and stops the transfer machine. When it returns nil, all buffers have had their final
// event and all posted work is done. Callbacks and posted work must not call it.
func (l *Loop) Close(ctx context.Context) error {
	var err error
	switch l.TM.State() {
	case transport.StateStarting, transport.StateStarted:
		err = l.TM.Abort()
	}
	if s := l.TM.State(); err == nil && s != transport.StateInitialized && s != transport.StateFailed {
		err = l.TM.Await(ctx, transport.StateStopped)
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.channel.Signal()
	if err != nil {
		return err
	}
	<-l.ended
	return l.TM.Close()
}

// run is the goroutine of the loop.
func (l *Loop) run() {
	defer close(l.ended)
	wake := l.channel.Tokens()
	for {
		select {
		case <-wake: // the reason is checked below
		default:
		}
		work, closed := l.take()
		if closed && work == nil {
			return
		}
		pending := l.Delivery != Async && l.TM.Pending()
		if work == nil && !pending {
			if !l.spins || !l.spin(wake) {
				l.sleep(wake)
			}
			continue
		}
		l.worked.Add(1)
		for _, f := range work {
			f()
		}
		if l.Delivery != Async {
			_, _ = l.TM.DeliverAll() // EINVAL if it was stopped meanwhile
		}
		if l.after != nil {
			l.after()
		}
	}
}

// spin polls for events for up to spinTime and reports whether there is something to do. Another thread
// produces the events and needs a processor, too, so spin yields between polls.
func (l *Loop) spin(wake <-chan struct{}) bool {
	begun := time.Now()
	for n := 1; ; n++ {
		if l.TM.Pending() {
			return true
		}
		select {
		case <-wake:
			return true
		default:
		}
		if n%spinBatch != 0 {
			shared.Yield()
			continue
		}
		if time.Since(begun) > spinTime {
			return false
		}
		runtime.Gosched()
	}
}

// sleep waits for work, for events, or for a change of state.
func (l *Loop) sleep(wake <-chan struct{}) {
	if l.Delivery != Async {
		_ = l.TM.Notify(&l.channel) // EINVAL if it was stopped meanwhile
	}
	l.blocked.Add(1)
	<-wake
	l.mu.Lock()
	work := len(l.work) > 0
	l.mu.Unlock()
	if work {
		l.byWork.Add(1)
	} else if l.Delivery != Async && l.TM.Pending() {
		l.byNet.Add(1)
	}
}

func (l *Loop) take() (work []func(), closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	work, l.work = l.work, nil
	return work, l.closed
}
