package transport

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// modelBuffer is the simple model of a buffer.
type modelBuffer struct {
	queued, cancelled, timedOut bool
	asked                       bool // cancellation was submitted to the Core
	added, deadline             time.Time
	events, finals, messages    int
	last                        error // of the last event
}

// model is a simple model of a TM, together with the TM.
type model struct {
	w       *fixture
	buffers []*Buffer
	known   []modelBuffer
	stats   [QueueTypes]Stats
	state   State
}

// step is one action of a random program: the action, the buffer and two numbers.
type step struct{ What, Buffer, N, M int }

const modelSteps = 11

// do performs a step on the TM and on the model, and returns an error if they differ afterwards.
func (m *model) do(s step) error {
	b, k := m.buffers[s.Buffer], &m.known[s.Buffer]
	switch s.What {
	case 0, 1, 2:
		m.add(b, k, time.Duration(s.N)*time.Second)
	case 3:
		if m.w.tm.Cancel(b) != k.queued {
			return fmt.Errorf("Cancel is %t", !k.queued)
		}
		if k.queued {
			m.cancel(b, k)
		}
	case 4, 5:
		if k.queued {
			m.w.fake.finish(b, s.N)
			m.ended(b, k, nil, s.N)
		}
	case 6:
		if k.queued {
			m.w.fake.fail(b, syscall.EIO)
			m.ended(b, k, syscall.EIO, 0)
		}
	case 7:
		if k.queued && b.Queue == MsgRecv {
			m.w.fake.message(b, s.N, s.M)
			k.events, k.messages, k.last = k.events+1, k.messages+1, nil
			m.stats[b.Queue].succeeded(s.M)
		}
	case 8:
		m.obey()
	case 9:
		time.Sleep(time.Duration(s.N) * time.Second)
		m.expire()
	case 10:
		if s.M < 10 { // otherwise most programs would be short
			m.stop(s.N%2 == 0)
		}
	}
	synctest.Wait()
	if m.w.tm.Pending() {
		if _, err := m.w.tm.DeliverAll(); err != nil {
			return err
		}
		synctest.Wait()
	}
	return m.compare()
}

// add adds a buffer with a deadline in the given time, or without one if it is 0. If it is 13 s, the core
// refuses the buffer.
func (m *model) add(b *Buffer, k *modelBuffer, deadline time.Duration) {
	want := error(nil)
	if !k.queued {
		b.Deadline = time.Time{}
		if deadline > 0 {
			b.Deadline = later(deadline)
		}
	}
	refused := deadline == 13*time.Second
	if refused {
		m.w.fake.submit = func(*fakeTM, []Op) (int, error) { return 0, syscall.EHOSTUNREACH }
	}
	switch {
	case k.queued:
		want = syscall.EBUSY
	case m.state != StateStarted:
		want = syscall.EINVAL
	case refused:
		want = syscall.EHOSTUNREACH
		k.messages = 0 // by 3.8 (3), which (4) does not revert
	default:
		k.queued, k.cancelled, k.timedOut, k.asked = true, false, false, false
		k.added, k.deadline, k.messages = time.Now(), b.Deadline, 0
		m.stats[b.Queue].Adds++
	}
	if err := m.w.tm.Add(b); !errors.Is(err, want) {
		m.w.t.Errorf("Add: %v, want %v", err, want)
	}
	m.w.fake.submit = nil
}

func (m *model) cancel(b *Buffer, k *modelBuffer) {
	k.cancelled, k.asked = true, true
	m.stats[b.Queue].Cancels++
}

// ended models the final event of a buffer.
func (m *model) ended(b *Buffer, k *modelBuffer, err error, n int) {
	s := &m.stats[b.Queue]
	s.TimeInQueue += time.Since(k.added)
	if err != nil {
		s.Failures++
	} else {
		if !b.Queue.receives() {
			n = b.Length
		} else if b.Queue == MsgRecv {
			k.messages++
		}
		s.succeeded(n)
	}
	k.queued, k.last = false, err
	k.events++
	k.finals++
}

// obey makes the core cancel the requested ops.
func (m *model) obey() {
	m.w.fake.obey()
	for i := range m.known {
		k := &m.known[i]
		switch {
		case k.queued && k.timedOut:
			m.ended(m.buffers[i], k, syscall.ETIMEDOUT, 0)
		case k.queued && k.asked:
			m.ended(m.buffers[i], k, syscall.ECANCELED, 0)
		}
	}
}

// expire models the passing of time.
func (m *model) expire() {
	for i := range m.known {
		k := &m.known[i]
		if k.queued && !k.deadline.IsZero() && !k.deadline.After(time.Now()) {
			k.timedOut, k.asked = true, true
		}
	}
}

func (m *model) stop(abort bool) {
	stop := m.w.tm.Stop
	if abort {
		stop = m.w.tm.Abort
	}
	err := stop()
	if m.state != StateStarted {
		if !errors.Is(err, syscall.EINVAL) {
			m.w.t.Errorf("Stop: %v", err)
		}
		return
	}
	m.state = StateStopping
	for i := range m.known {
		if abort && m.known[i].queued {
			m.cancel(m.buffers[i], &m.known[i])
		}
	}
}

// compare returns an error if the TM and the model differ.
func (m *model) compare() error {
	var length [QueueTypes]int
	queued := 0
	for i, b := range m.buffers {
		k := &m.known[i]
		flags := FlagRegistered
		if k.queued {
			length[b.Queue]++
			queued++
			flags |= FlagQueued
			if k.cancelled {
				flags |= FlagCancelled
			}
			if k.timedOut {
				flags |= FlagTimedOut
			}
		}
		if b.Flags() != flags || b.MessagesReceived() != k.messages {
			return fmt.Errorf("buffer %d: flags %#x, %d messages, want %+v", i, b.Flags(), b.MessagesReceived(), *k)
		}
		events, finals, last := m.w.recorded(b)
		if events != k.events || finals != k.finals || !errors.Is(last, k.last) {
			return fmt.Errorf("buffer %d: %d events, %d final, last %v, want %+v", i, events, finals, last, *k)
		}
	}
	for q := range QueueType(QueueTypes) {
		if n := m.w.tm.QueueLength(q); n != length[q] {
			return fmt.Errorf("%v has %d buffers, want %d", q, n, length[q])
		}
		if s := m.w.tm.Stats(q); s != m.stats[q] {
			return fmt.Errorf("stats of %v are %+v, want %+v", q, s, m.stats[q])
		}
	}
	if m.state == StateStopping && queued == 0 {
		m.state = StateStopped
	}
	if s := m.w.tm.State(); s != m.state {
		return fmt.Errorf("state is %v, want %v", s, m.state)
	}
	return nil
}

// recorded returns the number of events of a buffer, the number of final ones, and the last error.
func (w *fixture) recorded(b *Buffer) (events, finals int, last error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Buffer == b {
			events++
			last = e.Err
			if e.Final {
				finals++
			}
		}
	}
	return events, finals, last
}

// Random programs of adds, cancels, events, deadlines and stops have the same effect on a TM as on a simple
// model.
//
// transport 3.8 del, 3.9 (2), 3.10 posting (2)-(3), 3.10 guarantees, 3.12 (1)-(2)
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.IntRange(0, modelSteps-1).Draw(rt, "what"), rapid.IntRange(0, QueueTypes+1).Draw(rt, "buffer"),
				rapid.IntRange(0, 15).Draw(rt, "n"), rapid.IntRange(0, 100).Draw(rt, "m"),
			}
		}), 1, 60).Draw(rt, "steps")
		synchronous := rapid.Bool().Draw(rt, "synchronous")
		prepare := func(w *fixture) {
			if synchronous {
				w.ok(w.tm.DeliverSynchronously())
			}
		}
		var differs error
		withFixture(t, prepare, func(w *fixture) {
			m := &model{w: w, state: StateStarted}
			for i := range QueueTypes + 2 {
				b := w.buffer(QueueType(i % QueueTypes))
				b.MaxMessages = 1000
				m.buffers = append(m.buffers, b)
			}
			m.known = make([]modelBuffer, len(m.buffers))
			for i, s := range steps {
				if differs = m.do(s); differs != nil {
					differs = fmt.Errorf("step %d, %+v: %w", i, s, differs)
					return
				}
			}
		})
		if differs != nil {
			rt.Fatal(differs)
		}
	})
}
