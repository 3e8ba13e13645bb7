package tmhost

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/shm"
)

// A Poll loop sleeps when it has seen nothing for spinTime, at which it looks after every
// spinBatch rounds.
const (
	spinTime  = time.Millisecond
	spinBatch = 16
)

// Loop is a started transfer machine with a goroutine that does the work that is posted,
// and, unless delivery is Async, calls the callbacks of buffers, all in turn.
type Loop struct {
	TM       *transport.TransferMachine
	Delivery Delivery

	after   func()
	spins   bool // before it sleeps
	channel transport.Channel
	ended   chan struct{} // the goroutine has

	worked, blocked, byWork, byNet atomic.Uint64

	mu     sync.Mutex // guards the rest
	work   []func()
	closed bool
}

// Wakeups are what a loop counts, of Sync and Poll (transport 10.1).
type Wakeups struct {
	// Worked and Blocked are rounds with something to do, and those that slept first.
	Worked  uint64 `json:"worked"`
	Blocked uint64 `json:"blocked"`
	// Work and Net are ends of sleep since there was work, and since there were events.
	Work uint64 `json:"work"`
	Net  uint64 `json:"net"`
}

// Start starts a transfer machine at an address of d, and its loop. After, if not nil, is
// called by the loop after each of its rounds that had something to do. It blocks until
// the machine is started, or has failed to, or ctx ends.
func Start(ctx context.Context, d *transport.Domain, address string, delivery Delivery, after func()) (*Loop, error) {
	l := &Loop{Delivery: delivery, after: after, ended: make(chan struct{})}
	// On the only processor it would but keep those from it who make events.
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

// Post has the loop call f, behind what was posted before, and tells whether it will: it
// does not when the loop is closed. It does not block.
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

// ResetWakeups sets the counters of Wakeups to 0, and returns what they were.
func (l *Loop) ResetWakeups() Wakeups {
	return Wakeups{Worked: l.worked.Swap(0), Blocked: l.blocked.Swap(0), Work: l.byWork.Swap(0), Net: l.byNet.Swap(0)}
}

// Wakeups are the loop's so far.
func (l *Loop) Wakeups() Wakeups {
	return Wakeups{Worked: l.worked.Load(), Blocked: l.blocked.Load(), Work: l.byWork.Load(), Net: l.byNet.Load()}
}

// Address is the machine's.
func (l *Loop) Address() transport.Address { return l.TM.Self().Address() }

// Close stops the machine, with abort: all buffers have had their final event, and all
// work is done that was posted, when it returns nil. No callback and no work may call it.
func (l *Loop) Close(ctx context.Context) error {
	var err error
	switch l.TM.State() {
	case transport.StateStarting, transport.StateStarted:
		err = l.TM.Stop(true)
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

// run is the loop.
func (l *Loop) run() {
	defer close(l.ended)
	wake := l.channel.Tokens()
	for {
		select {
		case <-wake: // what it tells of is seen below
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
			_, _ = l.TM.DeliverAll() // EINVAL: it has stopped meanwhile
		}
		if l.after != nil {
			l.after()
		}
	}
}

// spin looks for events for a while, and tells whether there is something to do. What it
// waits for is made by another thread, which needs a processor, too: so it offers its own.
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
			shm.Yield()
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
		_ = l.TM.Notify(&l.channel) // EINVAL: it has stopped meanwhile
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
