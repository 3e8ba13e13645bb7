//go:build o2ib && cgo

package rdmacore

import (
	"errors"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/memory/polling"
)

// waiting is the state of Wait and Defer.
type waiting struct {
	w        waiter
	deferred atomic.Bool  // Defer
	armed    atomic.Int32 // the kinds of completions that wake Wait, while it sleeps or is about to

	// Only Wait uses the following fields.
	poller polling.Poller
	since  time.Time // when Wait last went to sleep while completions were deferred
	timed  bool      // w has a deadline, when deferred completions may be due
	due    bool      // they are due, so that they wake Wait until it has found completions

	// Arguments and results of harvest, which Wait uses. They are fields so that Wait allocates nothing.
	wc    []verbs.Completion
	limit time.Duration
	n     int
	err   error
	look  func(uintptr) bool
}

// C reads waiting.deferred as a number of 32 bits.
const _ = -(unsafe.Sizeof(atomic.Bool{}) ^ 4)

// Kinds of completions that wake Wait. They are bits of an argument of o2_cq_poll.
const (
	armedNone  = 0
	armedRecvs = 1
	armedSends = 2
	armedAll   = armedRecvs | armedSends
)

func (q *cq) Entries() int { return int(q.entries) }

func (q *cq) Poll(wc []verbs.Completion) (int, error) { return q.poll(wc, armedNone, 0) }

// Defer implements verbs.CQ. Defer(false) arms the queue for requests if Wait sleeps and they would not wake it. An
// error of that means that the device is gone or the queue is closed, of which Wait is notified, too.
func (q *cq) Defer(on bool) {
	q.deferred.Store(on)
	if !on && q.armed.CompareAndSwap(armedRecvs, armedAll) {
		_, _ = q.poll(nil, armedSends, 0)
	}
}

// harvest fetches completions for Wait. It returns false if Wait has to sleep.
func (q *cq) harvest(uintptr) bool {
	q.armed.Store(armedNone)
	found := q.limit > 0 && q.poke() || q.arm()
	if found {
		q.due = false
	}
	return found
}

// arm fetches completions. If it finds none and no error, it arms the queue and returns false.
func (q *cq) arm() bool {
	arm := int32(armedRecvs)
	q.armed.Store(arm)
	if q.due || !q.deferred.Load() { // checked afterwards, because of a concurrent Defer
		arm = armedAll
		q.armed.Store(arm)
	}
	q.n, q.err = q.poll(q.wc, arm, 0)
	if q.n > 0 || q.err != nil {
		q.armed.Store(armedNone)
		return true
	}
	q.p.sleeps.Add(1)
	if arm == armedRecvs {
		q.since = time.Now()
		if !q.timed {
			q.timed = true
			q.w.expire(q.since.Add(verbs.MaxDefer))
		}
	}
	return false
}

// expired is called after the deadline of w. Deferred completions are due if Wait has slept for verbs.MaxDefer.
// Otherwise it has been awake since the deadline was set, and expired sets a later one.
func (q *cq) expired() {
	at := q.since.Add(verbs.MaxDefer)
	if q.timed = time.Now().Before(at); !q.timed {
		q.due, at = true, time.Time{}
	}
	q.w.expire(at)
}

// poke polls for a while if polling has found completions lately, and if enough processors are left for other
// goroutines. It returns true if it has found completions or an error.
func (q *cq) poke() bool {
	q.poller.SetTime(q.limit)
	began := time.Now()
	spin := q.poller.Time(began)
	if spin == 0 || !polling.Acquire() {
		return false
	}
	defer polling.Release()
	q.n, q.err = q.poll(q.wc, armedNone, spin)
	found := q.n > 0 || q.err != nil
	q.poller.Record(found, began, time.Now())
	return found
}

func (q *cq) Wait(wc []verbs.Completion, spin time.Duration) (int, error) {
	q.wc, q.limit, q.n, q.err = wc, spin, 0, nil
	for {
		err := q.w.wait(q.look)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			q.armed.Store(armedNone)
			if err != nil {
				return 0, err
			}
			return q.n, q.err
		}
		q.expired()
	}
}
