package remote

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// flushing begins a Flush.
func flushing(t *tm, until time.Time) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.Flush(until)
	}()
	return done
}

// sleeps waits until a Flush sleeps.
func sleeps(t *tm) {
	for len(t.flushing) == 0 {
		time.Sleep(time.Microsecond)
	}
}

// pending checks that a Flush has not returned.
func pending(t *testing.T, done chan struct{}, why string) {
	t.Helper()
	select {
	case <-done:
		t.Errorf("Flush has returned: %s", why)
	default:
	}
}

// Flush returns when lnetd has carried out the submissions, not when it has copied them.
//
// transport 9.12
func TestFlush(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, host := f.start(d)
	tm.Flush(forever) // nothing was submitted
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	first := flushing(tm, forever)
	sleeps(tm)
	taken(t, host)
	pending(t, first, "it was copied")
	second := flushing(tm, forever)
	pending(t, second, "it was copied")
	if host.Submissions.MarkPosted() {
		host.Submissions.WakePosted()
	}
	<-first
	<-second
	tm.Flush(forever)
}

// A Flush ends at its deadline even while another Flush without a deadline sleeps.
//
// transport 9.12
func TestFlushEndsBehindAnother(t *testing.T) {
	f := newFake(t, Config{})
	d := f.open()
	tm, host := f.start(d)
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	first := flushing(tm, forever)
	sleeps(tm)
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Millisecond} {
		tm.Flush(time.Now().Add(d))
		pending(t, first, "another one's time has come")
	}
	taken(t, host)
	if host.Submissions.MarkPosted() {
		host.Submissions.WakePosted()
	}
	<-first
}

// Flush does not wait if lnetd does not support it.
//
// transport 9.11
func TestFlushWithAnOldLnetd(t *testing.T) {
	f := newFake(t, Config{})
	f.answers(func(h protocol.Header, r protocol.Request) ([]byte, bool) {
		hello, is := r.(*protocol.Hello)
		if !is {
			return nil, false
		}
		hello.Wanted &^= protocol.FeatPosted
		return must(t, helloReply(hello), h), true
	})
	d := f.open()
	tm, _ := f.start(d)
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	tm.Flush(forever)
}

// A Flush ends at its deadline, when lnetd dies, when the TM is stopped, and after Config.Patience if lnetd
// no longer answers any request.
//
// transport 9.10, 9.12
func TestFlushEnds(t *testing.T) {
	for name, c := range map[string]struct {
		until time.Duration
		end   func(f *fake, tm *tm)
		want  error // error of the TM
	}{
		"time":          {until: 10 * time.Millisecond},
		"lnetd is dead": {end: func(f *fake, _ *tm) { f.die() }, want: syscall.EPIPE},
		"lnetd is silent": {end: func(f *fake, _ *tm) {
			f.answers(func(protocol.Header, protocol.Request) ([]byte, bool) { return nil, true })
		}, want: syscall.ETIMEDOUT},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, Config{Patience: 200 * time.Millisecond})
			d := f.open()
			tm, _ := f.start(d)
			submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
			var until time.Time
			if c.until > 0 {
				until = time.Now().Add(c.until)
			}
			done := flushing(tm, until)
			if c.end != nil {
				sleeps(tm)
				c.end(f, tm)
			}
			<-done
			if c.want != nil {
				_ = reapUntilDown(t, tm, c.want, 0)
			}
		})
	}
	f := newFake(t, Config{})
	d := f.open()
	tm, _ := f.start(d)
	if ok, err := tm.ring.Submissions.Put(&shm.Submission{Opcode: shm.OpNop}); !ok {
		t.Fatal(err)
	}
	tm.ring.Submissions.Publish()
	done := flushing(tm, forever)
	sleeps(tm)
	if err := tm.Stop(); err != nil {
		t.Error(err)
	}
	<-done
	tm.Flush(forever)
}

// If lnetd answers, Flush waits for it, however long it takes to carry out the submissions.
func TestFlushWaitsForABusyLnetd(t *testing.T) {
	f := newFake(t, Config{Patience: 400 * time.Millisecond})
	d := f.open()
	tm, host := f.start(d)
	submit(t, tm, transport.Op{Queue: transport.PassiveBulkRecv, Buffer: f.buffer(d, 1)})
	done := flushing(tm, forever)
	for f.count(protocol.OpNop) < 6 { // one after each quarter of the patience
		time.Sleep(time.Microsecond)
	}
	pending(t, done, "lnetd is busy")
	taken(t, host)
	if host.Submissions.MarkPosted() {
		host.Submissions.WakePosted()
	}
	<-done
	if tm.ended() {
		t.Error("the connection was given up")
	}
	var gone error
	d.mu.Lock()
	gone = d.endError
	d.mu.Unlock()
	if gone != nil && !errors.Is(gone, errClosed) {
		t.Error(gone)
	}
}
