package tmhost

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/transport"
)

// A loop with delivery Poll sleeps after it has polled for pollTime without an event or work. It checks
// the time after every pollBatch polls.
const (
	pollTime  = time.Millisecond
	pollBatch = 16
)

// Loop is a started transfer machine with a goroutine. The goroutine calls the functions that were
// posted and, unless delivery is Async, the callbacks of buffers, one after the other.
type Loop struct {
	TM       *transport.TransferMachine
	Delivery Delivery

	after   func()
	polls   bool // poll before a sleep
	channel transport.Channel
	ended   chan struct{} // closed when the goroutine has ended

	worked, blocked, byWork, byNet atomic.Uint64

	mu     sync.Mutex // guards the rest
	work   []func()
	closed bool
}

// Wakeups are the counters of a loop (transport 10.1). They are meaningful for delivery Sync and Poll.
type Wakeups struct {
	// Worked is the number of rounds in which the loop had something to do, and Blocked the number of times
	// that it slept.
	Worked  uint64 `json:"worked"`
	Blocked uint64 `json:"blocked"`
	// Work and Net are the numbers of wake-ups because of posted functions and because of events.
	Work uint64 `json:"work"`
	Net  uint64 `json:"net"`
}

// Start starts a transfer machine of domain d at an address, and its loop. The loop calls after, if it
// is not nil, after each round in which it had something to do. Start blocks until the machine has
// started or failed, or ctx is done.
func Start(ctx context.Context, d *transport.Domain, address string, delivery Delivery, after func()) (*Loop, error) {
	l := &Loop{Delivery: delivery, after: after, ended: make(chan struct{})}
	// With a single processor, polling would only delay the threads that produce events.
	l.polls = delivery == Poll && runtime.GOMAXPROCS(0) > 1
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

// signal ends a sleep of the loop, or the next one.
func (l *Loop) signal() {
	l.channel.Signal()
	if l.Delivery != Async {
		l.TM.Wake()
	}
}

// Post makes the loop call f, after the functions that were posted before. It does not block. It returns
// false if the loop is closed; f is not called then.
func (l *Loop) Post(f func()) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.work = append(l.work, f)
	l.mu.Unlock()
	l.signal()
	return true
}

// ResetWakeups sets the counters of wake-ups to 0 and returns their previous values.
func (l *Loop) ResetWakeups() Wakeups {
	return Wakeups{Worked: l.worked.Swap(0), Blocked: l.blocked.Swap(0), Work: l.byWork.Swap(0), Net: l.byNet.Swap(0)}
}

// Wakeups returns the counters of wake-ups.
func (l *Loop) Wakeups() Wakeups {
	return Wakeups{Worked: l.worked.Load(), Blocked: l.blocked.Load(), Work: l.byWork.Load(), Net: l.byNet.Load()}
}

// Address returns the address of the transfer machine.
func (l *Loop) Address() transport.Address { return l.TM.Self().Address() }

// Close aborts and closes the transfer machine and ends the loop. When it returns nil, all buffers have
// had their final event, and all posted functions have returned. It must not be called by callbacks or
// posted functions.
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
	l.signal()
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
		case <-wake: // the checks below find the reason
		default:
		}
		work, closed := l.take()
		if closed && work == nil {
			return
		}
		pending := l.Delivery != Async && l.TM.Pending()
		if work == nil && !pending {
			if !l.polls || !l.poll(wake) {
				l.sleep(wake)
			}
			continue
		}
		l.worked.Add(1)
		for _, f := range work {
			f()
		}
		if l.Delivery != Async {
			_, _ = l.TM.DeliverAll() // EINVAL if the machine has been stopped
		}
		if l.after != nil {
			l.after()
		}
	}
}

// poll polls for events and work for up to pollTime, and reports whether there are any. It yields
// between polls, because the thread that produces the events needs a processor too.
func (l *Loop) poll(wake <-chan struct{}) bool {
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
		if n%pollBatch != 0 {
			polling.Yield()
			continue
		}
		if time.Since(begun) > pollTime {
			return false
		}
		runtime.Gosched()
	}
}

// sleep waits for posted functions, events, or a change of the transfer machine's state.
func (l *Loop) sleep(wake <-chan struct{}) {
	l.blocked.Add(1)
	if l.Delivery == Async || l.TM.Wait(time.Time{}) != nil { // EINVAL if the machine has not started, or has ended
		<-wake
	}
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
