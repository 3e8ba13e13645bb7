package fabric

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// cq implements verbs.CQ.
type cq struct {
	d       *opened
	entries int
	ready   sync.Cond

	// Guarded by Fabric.mu.
	closed     bool
	overflowed bool
	qps        map[*qp]struct{}
	queue      queue[entry]

	deferred bool // Defer was called with true
	due      bool // deferred completions are due: they wake Wait until it has found completions
	asleep   bool // Wait sleeps
	quiet    bool // Wait sleeps until a completion arrives that is not deferred
	woken    bool // Wait has to look for completions
	timed    bool // timer is set
	timer    *time.Timer
	since    time.Time // when Wait went to sleep
}

// entry is a completion in a queue. When it is fetched, sends and recvs slots of its queue pair become free.
type entry struct {
	verbs.Completion
	qp           *qp
	sends, recvs int
}

func (d *opened) NewCQ(entries, vector int) (verbs.CQ, error) {
	q := &cq{d: d, entries: entries, qps: make(map[*qp]struct{})}
	q.ready.L = &d.p.host.fabric.mu
	err := d.call(func() error {
		if entries < 1 || entries > d.attr.MaxCQE || vector < 0 {
			return syscall.EINVAL
		}
		d.queues[q] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, verbs.Wrap(err, "completion queue of %d entries on %s", entries, d.attr.Name)
	}
	return q, nil
}

func (q *cq) Entries() int { return q.entries }

// push adds a completion. If the queue is full, it overflows: the queue takes no more completions, and all its
// queue pairs are lost.
func (q *cq) push(e entry) {
	if q.closed || q.overflowed {
		return
	}
	if q.queue.n == q.entries {
		q.overflowed = true
		f := q.d.p.host.fabric
		f.faults.overflows.Add(1)
		q.d.push(verbs.AsyncEvent{Kind: verbs.AsyncCQError})
		for _, p := range slices.SortedFunc(maps.Keys(q.qps), func(a, b *qp) int { return cmp.Compare(a.number, b.number) }) {
			p.lose()
		}
		return
	}
	q.queue.push(e)
	if !q.quiet || e.recvs > 0 || e.Status != verbs.Success {
		q.wake()
	}
}

// wake makes Wait look for completions.
func (q *cq) wake() {
	q.woken = true
	q.ready.Signal()
}

// Defer implements verbs.CQ.
func (q *cq) Defer(on bool) {
	f := q.d.p.host.fabric
	f.lock()
	defer f.unlock()
	q.deferred = on
	q.quiet = q.quiet && on
}

// expire is the timer's callback. It makes deferred completions wake Wait if it has slept for verbs.MaxDefer.
func (q *cq) expire() {
	f := q.d.p.host.fabric
	f.lock()
	defer f.unlock()
	q.timed = false
	if !q.asleep {
		return
	}
	if left := verbs.MaxDefer - time.Since(q.since); left > 0 {
		q.timed = true
		q.timer.Reset(left)
		return
	}
	q.due = true
	q.wake()
}

// harvest removes completions from the queue and stores them in wc.
func (q *cq) harvest(wc []verbs.Completion) int {
	n := min(len(wc), q.queue.n)
	for k := range n {
		e := q.queue.pop()
		wc[k] = e.Completion
		e.qp.sendsUsed -= e.sends
		e.qp.recvsUsed -= e.recvs
	}
	return n
}

func (q *cq) Poll(wc []verbs.Completion) (int, error) {
	f := q.d.p.host.fabric
	f.lock()
	defer f.unlock()
	if q.closed || q.d.closed {
		return 0, verbs.ErrClosed
	}
	q.d.p.polls.Add(1)
	return q.harvest(wc), nil
}

// Wait implements verbs.CQ. It never spins.
func (q *cq) Wait(wc []verbs.Completion, _ time.Duration) (int, error) {
	f := q.d.p.host.fabric
	f.lock()
	defer f.unlock()
	for !q.closed && !q.d.closed {
		q.d.p.polls.Add(1)
		if n := q.harvest(wc); n > 0 {
			q.due = false
			return n, nil
		}
		q.sleep()
	}
	if q.timer != nil {
		q.timer.Stop()
	}
	return 0, verbs.ErrClosed
}

// sleep waits until a completion has been pushed that is not deferred, or until deferred ones are due.
func (q *cq) sleep() {
	q.d.p.sleeps.Add(1)
	q.asleep, q.quiet, q.woken = true, q.deferred && !q.due, false
	q.since = time.Now()
	if q.quiet && !q.timed {
		q.timed = true
		if q.timer == nil {
			q.timer = time.AfterFunc(verbs.MaxDefer, q.expire)
		} else {
			q.timer.Reset(verbs.MaxDefer)
		}
	}
	for !q.woken && !q.closed && !q.d.closed {
		q.ready.Wait()
	}
	q.asleep, q.quiet = false, false
}

func (q *cq) Close() error {
	f := q.d.p.host.fabric
	q.d.p.others.Add(1)
	f.lock()
	defer f.unlock()
	switch {
	case q.closed || q.d.closed:
		return verbs.Wrap(verbs.ErrClosed, "close the completion queue")
	case len(q.qps) > 0:
		return verbs.Wrap(syscall.EBUSY, "close the completion queue: %d queue pairs left", len(q.qps))
	}
	q.closed = true
	delete(q.d.queues, q)
	q.ready.Broadcast()
	return nil
}
