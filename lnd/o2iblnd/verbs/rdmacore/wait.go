//go:build o2ib && cgo

package rdmacore

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// harvest fetches completions for Wait. It returns false if Wait has to sleep.
func (q *cq) harvest(uintptr) bool {
	q.n, q.err = q.poll(q.wc, 1, q.spin.Time(q.limit))
	if q.n > 0 || q.err != nil {
		q.spin.Found(q.limit)
		return true
	}
	q.spin.Missed()
	q.p.sleeps.Add(1)
	return false
}

func (q *cq) Wait(wc []verbs.Completion, spin time.Duration) (int, error) {
	q.wc, q.limit, q.n, q.err = wc, spin, 0, nil
	if err := q.w.wait(q.look); err != nil {
		return 0, err
	}
	return q.n, q.err
}
