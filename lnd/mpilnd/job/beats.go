package job

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// beats are the signs of life of another job: MPI does not report that it has ended. Rank 0 of each of two connected jobs
// sends an empty message to rank 0 of the other job every second. If another rank ends, mpirun ends its job.
type beats struct {
	m     boundary.MPI
	other boundary.Comm
	tag   int
	limit time.Duration // how long the other job may be silent
	fatal bool          // MPI is of no use to this job without the other one

	sending, receiving bool // requests are not complete
	over               bool // the jobs are ending: no beats are expected
	lost               bool // the other job was silent for too long
	sent, heard        time.Time
}

const beatInterval = time.Second

// start starts to receive.
func (b *beats) start() error {
	b.heard = time.Now()
	return b.receive()
}

func (b *beats) receive() error {
	b.receiving = true
	return b.other.Receive(0, b.tag, nil, beaten<<32|ownID)
}

// beat sends a beat if that is due, and returns how long MPI may wait: at most the time wait. It returns an error if the
// other job has been silent for too long and this one needs it.
func (b *beats) beat(wait time.Duration) (time.Duration, error) {
	if b.over || b.lost {
		return wait, nil
	}
	now := time.Now()
	if silent := now.Sub(b.heard); silent >= b.limit {
		b.lost = true
		if b.fatal {
			return 0, fmt.Errorf("the application has ended, or was silent for %s: %w", silent.Round(time.Second), lnd.ErrTimeout)
		}
		return wait, nil
	}
	if !b.sending && now.Sub(b.sent) >= beatInterval {
		b.sent, b.sending = now, true
		if err := b.other.Send(0, b.tag, nil, beating<<32|ownID); err != nil {
			return 0, err
		}
	}
	return min(wait, beatInterval), nil
}

// completed handles the completion of a request.
func (b *beats) completed(d *boundary.Done) error {
	if d.ID>>32 == beating {
		b.sending = false
	} else {
		b.receiving = false
	}
	switch {
	case d.Err != nil && b.fatal:
		return fmt.Errorf("connection with the application: %w", d.Err)
	case d.Err != nil:
		b.lost = true
	case b.receiving || d.ID>>32 == beating || d.Cancelled || b.over:
	default:
		b.heard = time.Now()
		return b.receive()
	}
	return nil
}

// stop ends the requests.
func (b *beats) stop() error {
	b.over = true
	if b.receiving {
		if err := b.other.Cancel(beaten<<32 | ownID); err != nil {
			return err
		}
	}
	for b.receiving || b.sending && !b.lost {
		var done [1]boundary.Done
		n, err := b.m.Poll(done[:], time.Hour)
		if err != nil {
			return err
		}
		if n == 0 || done[0].ID != beaten<<32|ownID && done[0].ID != beating<<32|ownID {
			continue // a request of the driver or the rendezvous
		}
		if err := b.completed(&done[0]); err != nil {
			return err
		}
	}
	return nil
}
