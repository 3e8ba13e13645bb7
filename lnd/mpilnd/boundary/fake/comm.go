package fake

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// comm is a communicator: that of all ranks of a job, or an inter-communicator.
type comm struct {
	m       *MPI
	context *context
	peers   *Job // whose ranks messages are sent to
}

func (c comm) Rank() int { return c.m.rank }
func (c comm) Size() int { return len(c.peers.ranks) }

func (c comm) Send(to, tag int, b []byte, id uint64) error {
	m := c.m
	defer m.enter()()
	r := &request{owner: m, comm: c, peer: to, tag: tag, b: b, done: boundary.Done{ID: id}}
	if err := m.check("send", r); err != nil {
		return err
	}
	peer := c.peers.ranks[to]
	if !m.start(r) {
		if errors.Is(r.done.Err, ErrFailed) && m.random.IntN(2) == 0 {
			m.post(r, bytes.Clone(b), nil)
		}
		return nil
	}
	if len(b) > m.job.o.Eager || peer.full() {
		m.post(r, b, r)
		return nil
	}
	m.post(r, bytes.Clone(b), nil)
	m.finish(r, nil)
	return nil
}

func (c comm) Receive(from, tag int, b []byte, id uint64) error {
	m := c.m
	defer m.enter()()
	r := &request{owner: m, comm: c, receive: true, peer: from, tag: tag, b: b, done: boundary.Done{ID: id}}
	if err := m.check("receive", r); err != nil {
		return err
	}
	if !m.start(r) {
		return nil
	}
	if k := slices.IndexFunc(m.unexpected, r.fits); k >= 0 {
		e := m.unexpected[k]
		m.unexpected = slices.Delete(m.unexpected, k, k+1)
		m.match(r, e)
		return nil
	}
	m.receives = append(m.receives, r)
	return nil
}

// check returns why the request r cannot be started, or nil.
func (m *MPI) check(what string, r *request) error {
	if err := m.usable(); err != nil {
		return err
	}
	switch {
	case (r.peer < 0 || r.peer >= r.comm.Size()) && (!r.receive || r.peer != boundary.Any):
		return fmt.Errorf("fake: %s: rank %d of %d", what, r.peer, r.comm.Size())
	case r.tag < 1 || r.tag > m.job.o.MaxTag:
		return fmt.Errorf("fake: %s: tag %d, largest %d", what, r.tag, m.job.o.MaxTag)
	case r.comm.context.freed(m):
		return fmt.Errorf("fake: %s: the communicator is disconnected", what)
	case m.requests[r.done.ID] != nil:
		return fmt.Errorf("fake: %s: a request has the ID %d", what, r.done.ID)
	}
	return nil
}

func (c comm) Cancel(id uint64) error {
	m := c.m
	defer m.enter()()
	if err := m.usable(); err != nil {
		return err
	}
	r := m.requests[id]
	if r == nil || !r.receive {
		return fmt.Errorf("fake: cancel: no receive has the ID %d", id)
	}
	m.progress()
	if k := slices.Index(m.receives, r); k >= 0 {
		m.receives = slices.Delete(m.receives, k, k+1)
		r.done.Cancelled = true
		m.finish(r, nil)
	}
	return nil
}

// meet is a collective call of the communicator.
func (c comm) meet(what string, root int, b []byte) ([][]byte, error) {
	if c.peers != c.m.job {
		return nil, fmt.Errorf("fake: %s: the communicator connects two jobs", what)
	}
	return c.m.meet(what, root, b)
}

func (c comm) Barrier() error {
	defer c.m.enter()()
	_, err := c.meet("barrier", 0, nil)
	return err
}

func (c comm) Broadcast(b []byte, root int) error {
	defer c.m.enter()()
	parts, err := c.meet("broadcast", root, b)
	if err != nil {
		return err
	}
	if len(b) != len(parts[root]) {
		return fmt.Errorf("fake: broadcast: %d bytes from %d", len(b), len(parts[root]))
	}
	copy(b, parts[root])
	return nil
}

func (c comm) Gather(b, all []byte, root int) error {
	defer c.m.enter()()
	if want := len(b) * c.Size(); c.m.rank == root && len(all) != want {
		return fmt.Errorf("fake: gather: %d bytes for %d", len(all), want)
	}
	parts, err := c.meet("gather", root, b)
	if err != nil || c.m.rank != root {
		return err
	}
	for rank, part := range parts {
		copy(all[rank*len(b):][:len(b)], part)
	}
	return nil
}

// Abort ends the calling goroutine.
func (c comm) Abort(status int) {
	c.m.job.mu.Lock()
	c.m.job.aborted = status
	c.m.job.mu.Unlock()
	c.m.job.end(ErrAborted)
	runtime.Goexit()
}
