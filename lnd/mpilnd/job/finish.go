package job

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// rendezvous is MPI as the driver sees it. Beside the driver's requests it has those of a barrier that all clients enter
// and all processes leave, while the driver runs: each client sends an empty message to the first client, and this
// one sends an empty message to all others when the last client has entered. The messages have a tag that the
// driver does not use.
type rendezvous struct {
	boundary.MPI
	comm  boundary.Comm
	root  int           // rank of the first client
	left  chan struct{} // closed when all clients have entered
	enter atomic.Bool   // set by Finish

	// Only the goroutine of MPI uses the fields below.
	entered bool
	waiting int // messages to receive
}

// ownID is the low half of the IDs of the rendezvous' requests. In IDs of the driver it is the index of a request, which
// is smaller. The high half is receiving, or the rank to which a message is sent.
const (
	ownID     = 1<<32 - 1
	receiving = 1<<32 - 1
)

func newRendezvous(m boundary.MPI, comm boundary.Comm) *rendezvous {
	return &rendezvous{MPI: m, comm: comm, left: make(chan struct{})}
}

// start starts to receive.
func (r *rendezvous) start(all roster) error {
	r.root = all.clients()[0]
	r.waiting = 1
	if r.comm.Rank() == r.root {
		r.waiting = len(all.clients())
		return r.receiveFrom(boundary.Any)
	}
	return r.receiveFrom(r.root)
}

// tag returns the tag of the rendezvous' messages, which is the largest one that the driver could use.
func (r *rendezvous) tag() int { return min(r.MPI.MaxTag(), protocol.MaxTag) }

// MaxTag returns the largest tag for the driver.
func (r *rendezvous) MaxTag() int { return r.tag() - 1 }

// Poll does not report requests of the rendezvous.
func (r *rendezvous) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	if r.enter.Load() && !r.entered {
		r.entered = true
		if err := r.send(r.root); err != nil {
			return 0, err
		}
	}
	n, err := r.MPI.Poll(done, wait)
	rest := done[:0]
	for _, d := range done[:n] {
		switch {
		case d.ID&ownID != ownID:
			rest = append(rest, d)
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
		return r.receiveFrom(boundary.Any)
	}
	close(r.left)
	if r.comm.Rank() != r.root {
		return nil
	}
	for rank := range r.comm.Size() {
		if rank == r.root {
			continue
		}
		if err := r.send(rank); err != nil {
			return err
		}
	}
	return nil
}

func (r *rendezvous) send(to int) error { return r.comm.Send(to, r.tag(), nil, uint64(to)<<32|ownID) }

func (r *rendezvous) receiveFrom(from int) error {
	return r.comm.Receive(from, r.tag(), nil, receiving<<32|ownID)
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
