package job

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// rendezvous is MPI as the driver sees it. Beside the driver's requests it has those of a barrier that all clients enter
// and all processes leave, while the driver runs: each client sends an empty message to the first client, and this
// one sends an empty message to all others when the last client has entered. The messages have a tag that the
// driver does not use.
type rendezvous struct {
	boundary.MPI
	comms []boundary.Comm // that of this job, and perhaps that with the other one
	table *Table
	self  int           // the member that this process is
	root  int           // the first client
	left  chan struct{} // closed when all clients have entered
	enter atomic.Bool   // set by Finish

	// Only the goroutine of MPI uses the fields below.
	entered bool
	waiting int // messages to receive
	beats   *beats
}

// ownID is the low half of the IDs of the rendezvous' requests. In IDs of the driver it is the index of a request, which
// is smaller. The high half is receiving, beating, beaten, or the member to which a message is sent.
const (
	ownID     = 1<<32 - 1
	receiving = 1<<32 - 1
	beating   = 1<<32 - 2 // sends a beat
	beaten    = 1<<32 - 3 // receives one
)

// start starts to receive.
func (r *rendezvous) start(all roster) error {
	clients := all.clients()
	r.root = clients[0]
	if r.beats != nil {
		if err := r.beats.start(); err != nil {
			return err
		}
	}
	r.waiting = 1
	if r.self == r.root {
		r.waiting = len(clients)
		return r.receive(r.comms[0], boundary.Any)
	}
	at := r.table.place(r.root)
	return r.receive(r.comms[at.Comm], at.Rank)
}

// tag returns the tag of the rendezvous' messages, which is the largest one that the driver could use.
func (r *rendezvous) tag() int { return min(r.MPI.MaxTag(), protocol.MaxTag) }

// MaxTag returns the largest tag for the driver. That of beats is the one above it.
func (r *rendezvous) MaxTag() int { return r.tag() - 2 }

// Poll does not report requests of the rendezvous.
func (r *rendezvous) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	if r.enter.Load() && !r.entered {
		r.entered = true
		if err := r.send(r.root); err != nil {
			return 0, err
		}
	}
	if r.beats != nil {
		var err error
		if wait, err = r.beats.beat(wait); err != nil {
			return 0, err
		}
	}
	n, err := r.MPI.Poll(done, wait)
	rest := done[:0]
	for _, d := range done[:n] {
		switch {
		case d.ID&ownID != ownID:
			rest = append(rest, d)
		case d.ID>>32 == beating || d.ID>>32 == beaten:
			err = errors.Join(err, r.beats.completed(&d))
		case d.Err != nil:
			err = d.Err
		case d.ID>>32 == receiving && !d.Cancelled && err == nil:
			err = r.received()
		}
	}
	return len(rest), err
}

// received handles a message.
func (r *rendezvous) received() error {
	if r.waiting--; r.waiting > 0 {
		return r.receive(r.comms[0], boundary.Any)
	}
	close(r.left)
	if r.beats != nil {
		r.beats.over = true
	}
	if r.self != r.root {
		return nil
	}
	for member := range r.table.members {
		if member == r.root {
			continue
		}
		if err := r.send(member); err != nil {
			return err
		}
	}
	return nil
}

// meet waits until the drivers of both connected jobs have ended: the processes of a job may exit as soon as they have
// disconnected, and what was sent to them would then be lost. It returns an error if the other job has ended. It is
// collective.
func (r *rendezvous) meet() error {
	if len(r.comms) == 1 {
		return nil
	}
	var lost, word [1]byte
	if r.beats != nil {
		if err := r.beats.stop(); err != nil {
			return err
		}
		if r.beats.lost {
			lost[0] = 1
		} else if err := swap(r.MPI, r.comms[1], r.tag(), []byte{1}, word[:]); err != nil {
			return fmt.Errorf("meet the other job: %w", err)
		}
	}
	if err := r.comms[0].Broadcast(lost[:], 0); err != nil {
		return fmt.Errorf("broadcast the end: %w", err)
	}
	if lost[0] != 0 {
		return fmt.Errorf("the other job has ended, or does not answer: %w", lnd.ErrTimeout)
	}
	return nil
}

// disconnect ends the connection with another job. It is collective.
func (r *rendezvous) disconnect() error {
	if len(r.comms) == 1 {
		return nil
	}
	return r.comms[1].Disconnect()
}

func (r *rendezvous) send(to int) error {
	at := r.table.place(to)
	return r.comms[at.Comm].Send(at.Rank, r.tag(), nil, uint64(to)<<32|ownID)
}

func (r *rendezvous) receive(c boundary.Comm, from int) error {
	return c.Receive(from, r.tag(), nil, receiving<<32|ownID)
}

// Finish enters this client into a barrier, and blocks until all clients have entered it. Afterwards no process
// waits for answers of this one, and nodes can be closed. In a proxy, Finish only waits for the clients. It returns
// an error if ctx is done, or if MPI has failed. It may be called again, and from several goroutines.
func (j *Job) Finish(ctx context.Context) error {
	if !j.Self().Proxy && !j.mpi.enter.Swap(true) {
		j.mpi.Wake()
	}
	select {
	case <-j.mpi.left:
		return nil
	case <-j.ended:
		return j.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
