package transport

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// address is the address of the TM of a fixture.
const address = "0@lo:12345:34:12"

// fixture is one TM on a fake core, in a synctest bubble, with the events that it has reported.
type fixture struct {
	t      *testing.T
	core   *fakeCore
	domain *Domain
	tm     *TransferMachine
	fake   *fakeTM // set when it is started
	held   []*EndPoint

	mu       sync.Mutex
	events   []BufferEvent
	flags    []Flags // of the buffers, during the callbacks
	tmEvents []TMEvent
	// on, unless nil, is called for each event of a buffer.
	on func(e *BufferEvent)
	// onTM, unless nil, is called for each event of the TM.
	onTM func(e *TMEvent)
}

// withFixture runs a test in a bubble. prepare, unless nil, may change the TM before it is started. All that the
// test leaves is shut down.
func withFixture(t *testing.T, prepare func(w *fixture), test func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		if prepare != nil {
			prepare(w)
		}
		w.start()
		test(w)
		w.close()
	})
}

// newFixture returns a fixture whose TM is StateInitialized.
func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, core: newFakeCore()}
	d, err := NewDomain(context.Background(), w.core)
	if err != nil {
		t.Fatal(err)
	}
	w.domain = d
	if w.tm, err = d.NewTM(w.recordTM); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) recordTM(e *TMEvent) {
	w.mu.Lock()
	w.tmEvents = append(w.tmEvents, *e)
	on := w.onTM
	w.mu.Unlock()
	if on != nil {
		on(e)
	}
}

func (w *fixture) record(e *BufferEvent) {
	flags := e.Buffer.Flags()
	w.mu.Lock()
	w.events = append(w.events, *e)
	w.flags = append(w.flags, flags)
	on := w.on
	w.mu.Unlock()
	if on != nil {
		on(e)
	}
}

// start starts the TM, and waits.
func (w *fixture) start() {
	w.t.Helper()
	if err := w.tm.Start(address); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	if s := w.tm.State(); s != StateStarted {
		w.t.Fatalf("state is %v, want started", s)
	}
	w.fake = w.core.tms[len(w.core.tms)-1]
}

// close stops and closes the TM, unless the test has done so. The core cancels all ops.
func (w *fixture) close() {
	w.t.Helper()
	for _, e := range w.held {
		e.Put()
	}
	if s := w.tm.State(); s == StateUndefined {
		return
	} else if s == StateStarted {
		w.ok(w.tm.Abort())
		w.settle()
	} else if s == StateStopping {
		w.tm.mu.Lock()
		w.tm.abort()
		w.settle()
	}
	w.ok(w.tm.Close())
}

// settle cancels ops in the core and delivers events, until the TM has ended.
func (w *fixture) settle() {
	w.t.Helper()
	for range 10 {
		w.fake.obey()
		synctest.Wait()
		if w.tm.Pending() {
			if _, err := w.tm.DeliverAll(); err != nil {
				w.t.Fatal(err)
			}
			synctest.Wait()
		}
		if s := w.tm.State(); s == StateStopped || s == StateFailed {
			return
		}
	}
	w.t.Fatalf("the TM is %v, with %d buffers", w.tm.State(), w.tm.queued)
}

// ok fails the test if there is an error.
func (w *fixture) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// is fails the test unless the error matches an errno.
func (w *fixture) is(err error, want syscall.Errno) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Fatalf("error is %v, want %v", err, want)
	}
}

// all returns callbacks for each queue.
func (w *fixture) all() *Callbacks {
	var c Callbacks
	for q := range c {
		c[q] = w.record
	}
	return &c
}

// buffer returns a registered buffer of 8192 bytes that is ready for a queue.
func (w *fixture) buffer(q QueueType) *Buffer {
	w.t.Helper()
	b := NewBuffer(make([]byte, 4096), make([]byte, 4096))
	w.ok(w.domain.Register(context.Background(), b))
	b.Queue, b.Callbacks, b.Length = q, w.all(), 8192
	b.MinReceiveSize, b.MaxMessages = 4096, 1
	switch {
	case q == MsgSend:
		e, err := w.tm.EndPointAt(peer)
		w.ok(err)
		b.EndPoint = e
		w.held = append(w.held, e)
	case q.active():
		passive := PassiveBulkRecv
		if q == ActiveBulkRecv {
			passive = PassiveBulkSend
		}
		p := Passive{Address: peer, MatchBits: MakeMatchBits(peer.TMID, 1), Queue: passive, Size: 8192}
		b.Descriptor = p.AppendDescriptor(nil)
	}
	return b
}

// added returns a buffer, like buffer does, that was also added to the TM.
func (w *fixture) added(q QueueType) *Buffer {
	w.t.Helper()
	b := w.buffer(q)
	w.ok(w.tm.Add(b))
	return b
}

// finals returns the final events of a buffer so far.
func (w *fixture) finals(b *Buffer) (found []BufferEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Buffer == b && e.Final {
			found = append(found, e)
		}
	}
	return found
}

// ended checks that b has had exactly one final event, with errno want (0 means no error), and returns this
// event.
func (w *fixture) ended(b *Buffer, want syscall.Errno) BufferEvent {
	w.t.Helper()
	found := w.finals(b)
	if len(found) != 1 {
		w.t.Fatalf("%d final events, want 1", len(found))
	}
	e := found[0]
	if want == 0 && e.Err != nil || want != 0 && !errors.Is(e.Err, want) {
		w.t.Fatalf("the final event has %v, want errno %d", e.Err, want)
	}
	return e
}

// states returns the states that the TM has reported.
func (w *fixture) states() (told []State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.tmEvents {
		if e.Type == TMStateChange {
			told = append(told, e.Next)
		}
	}
	return told
}

// eachQueue runs a test on each queue.
func eachQueue(t *testing.T, test func(w *fixture, q QueueType)) {
	t.Helper()
	for q := range QueueType(QueueTypes) {
		t.Run(q.String(), func(t *testing.T) {
			withFixture(t, nil, func(w *fixture) { test(w, q) })
		})
	}
}

// later returns the time after d.
func later(d time.Duration) time.Time { return time.Now().Add(d) }
