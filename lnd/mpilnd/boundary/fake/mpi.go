package fake

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// MPI is the access of one rank to its job. It implements boundary.MPI.
type MPI struct {
	job  *Job
	rank int
	busy atomic.Bool   // whether a call is in progress
	bell chan struct{} // holds an element if something has happened since the rank last looked

	// The job's lock guards the rest.
	random     *rand.Rand
	requests   map[uint64]*request // those whose completion was not reported
	receives   []*request          // those without a message, in the order of the calls
	later      schedule            // those that will be complete at a certain time
	complete   []*request          // those that are complete
	finished   int                 // number of requests that have been given a time to complete
	inbox      []*box              // messages on their way
	unexpected []*message          // messages that have arrived, without a receive
	opened     bool                // whether World has returned
	gate       int                 // the number of the next collective call
	woken      bool
	stalled    bool
	killed     bool
	fate       Fate // if killed
	closed     bool
	failing    int // how many of the next requests fail
}

var _ boundary.MPI = (*MPI)(nil)

// Library implements boundary.MPI.
func (m *MPI) Library() string { return "fake" }

// MaxTag implements boundary.MPI.
func (m *MPI) MaxTag() int { return m.job.o.MaxTag }

// World implements boundary.MPI.
func (m *MPI) World() (boundary.Comm, error) {
	defer m.enter()()
	if !m.opened {
		if _, err := m.meet("world", 0, nil); err != nil {
			return nil, err
		}
		m.opened = true
	}
	return comm{m, m.job.world, m.job}, nil
}

// Poll implements boundary.MPI.
func (m *MPI) Poll(done []boundary.Done, wait time.Duration) (n int, err error) {
	defer m.enter()()
	if len(done) == 0 {
		panic("fake: Poll without space for a completion")
	}
	end := time.Now().Add(wait)
	for {
		if err := m.usable(); err != nil {
			return 0, err
		}
		m.progress()
		now := time.Now()
		n := m.harvest(done, now)
		if n > 0 || m.woken || !now.Before(end) {
			m.woken = false
			return n, nil
		}
		m.sleep(end)
	}
}

// Wake implements boundary.MPI.
func (m *MPI) Wake() {
	m.job.mu.Lock()
	defer m.job.mu.Unlock()
	m.woken = true
	m.ring()
}

// Close implements boundary.MPI. It waits for the other ranks, except those that were killed.
func (m *MPI) Close() error {
	defer m.enter()()
	if err := m.usable(); err != nil {
		return err
	}
	if n := len(m.requests); n > 0 {
		return fmt.Errorf("fake: close: %d requests are left", n)
	}
	m.closed = true
	for _, other := range m.job.ranks {
		other.ring()
	}
	for m.job.ended == nil && slices.ContainsFunc(m.job.ranks, func(r *MPI) bool { return !r.closed && !r.killed }) {
		m.sleep(time.Time{})
	}
	return m.job.ended
}

// enter begins a call: it acquires the job's lock. The function that it returns ends the call.
func (m *MPI) enter() func() {
	if !m.busy.CompareAndSwap(false, true) {
		panic("fake: two calls of one rank at the same time")
	}
	m.job.mu.Lock()
	return func() {
		m.job.mu.Unlock()
		m.busy.Store(false)
	}
}

// usable returns why the rank's calls fail, or nil.
func (m *MPI) usable() error {
	switch {
	case m.job.ended != nil:
		return m.job.ended
	case m.killed:
		return ErrKilled
	case m.closed:
		return ErrClosed
	}
	return nil
}

// ring makes a call in progress look again.
func (m *MPI) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// sleep releases the lock until something has happened, the next event of the rank is due, or end; if that is zero,
// without limit.
func (m *MPI) sleep(end time.Time) {
	if next := m.next(); !m.stalled && !next.IsZero() && (end.IsZero() || next.Before(end)) {
		end = next
	}
	m.job.mu.Unlock()
	defer m.job.mu.Lock()
	if end.IsZero() {
		<-m.bell
		return
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-m.bell:
	case <-timer.C:
	}
}

// next returns when the next message arrives or a request is complete, or zero.
func (m *MPI) next() (next time.Time) {
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, box := range m.inbox {
		if len(box.list) > 0 {
			sooner(box.list[0].at)
		}
	}
	if len(m.later) > 0 {
		sooner(m.later[0].at)
	}
	return next
}

// harvest moves requests that are complete to done, and returns their number.
func (m *MPI) harvest(done []boundary.Done, now time.Time) int {
	if m.stalled {
		return 0
	}
	for len(m.later) > 0 && !m.later[0].at.After(now) {
		m.complete = append(m.complete, heap.Pop(&m.later).(*request))
	}
	n := min(len(done), len(m.complete))
	for k := range done[:n] {
		if m.job.o.Shuffle {
			other := k + m.random.IntN(len(m.complete)-k)
			m.complete[k], m.complete[other] = m.complete[other], m.complete[k]
		}
		done[k] = m.complete[k].done
		delete(m.requests, done[k].ID)
		m.complete[k] = nil
	}
	m.complete = m.complete[n:]
	return n
}
