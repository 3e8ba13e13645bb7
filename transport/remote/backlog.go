package remote

import (
	"time"

	"github.com/lnetd/lnetd/transport/shm"
)

// backlogDelay is how long submissions for which the ring had no room wait until moveBacklog tries again. An
// lnetd that runs empties the ring in less time.
const backlogDelay = time.Millisecond

// backlog holds the submissions of a TM for which the ring had no room. The TM's mu guards it.
type backlog struct {
	submissions []shm.Submission
	timer       *time.Timer // calls moveBacklog; set while there are submissions
}

// writeOp writes t.op into the ring. If the ring is full, or earlier submissions wait, the op waits behind
// them. The error is shared.ErrRing. mu is held.
func (t *tm) writeOp() error {
	if len(t.backlog.submissions) == 0 {
		if ok, err := t.ring.Submissions.Put(&t.op); ok || err != nil {
			return err
		}
		t.domain.timers.Add(1)
		if t.backlog.timer == nil {
			t.backlog.timer = time.AfterFunc(backlogDelay, t.moveBacklog)
		} else {
			t.backlog.timer.Reset(backlogDelay)
		}
	}
	t.backlog.submissions = append(t.backlog.submissions, t.op)
	return nil
}

// moveBacklog writes waiting submissions into the ring, as far as there is room, and wakes lnetd if it sleeps.
// If some are left, it is called again. It runs in the timer's goroutine.
func (t *tm) moveBacklog() {
	t.mu.Lock()
	b := &t.backlog
	if t.ended() {
		b.submissions = nil
		t.domain.timers.Done()
		t.mu.Unlock()
		return
	}
	var err error
	n := 0
	for ok := true; ok && err == nil && n < len(b.submissions) && !t.stopped; {
		if ok, err = t.ring.Submissions.Put(&b.submissions[n]); ok {
			n++
		}
	}
	t.ring.Submissions.Publish()
	wake := t.ring.Submissions.Claim()
	if b.submissions = b.submissions[n:]; len(b.submissions) > 0 && err == nil {
		b.timer.Reset(backlogDelay)
	} else {
		b.submissions = nil
		t.domain.timers.Done()
	}
	t.mu.Unlock()
	t.ring.Submissions.Wake(wake)
	if err != nil {
		t.domain.connection.fail(err)
	}
}
