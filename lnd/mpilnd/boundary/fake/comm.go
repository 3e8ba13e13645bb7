package fake

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// comm is the communicator of all ranks.
type comm struct{ m *MPI }

func (c comm) Rank() int { return c.m.rank }
func (c comm) Size() int { return len(c.m.job.ranks) }

func (c comm) Send(to, tag int, b []byte, id uint64) error {
	m := c.m
	defer m.enter()()
	r := &request{owner: m, peer: to, tag: tag, b: b, done: boundary.Done{ID: id}}
	if err := m.check("send", r); err != nil {
		return err
	}
	peer := m.job.ranks[to]
	if !m.start(r) {
		if errors.Is(r.done.Err, ErrFailed) && m.random.IntN(2) == 0 {
			m.post(peer, tag, bytes.Clone(b), nil)
		}
		return nil
	}
	if len(b) > m.job.o.Eager || peer.full() {
		m.post(peer, tag, b, r)
		return nil
	}
	m.post(peer, tag, bytes.Clone(b), nil)
	m.finish(r, nil)
	return nil
}

func (c comm) Receive(from, tag int, b []byte, id uint64) error {
	m := c.m
	defer m.enter()()
	r := &request{owner: m, receive: true, peer: from, tag: tag, b: b, done: boundary.Done{ID: id}}
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
	case (r.peer < 0 || r.peer >= len(m.job.ranks)) && (!r.receive || r.peer != boundary.Any):
		return fmt.Errorf("fake: %s: rank %d of %d", what, r.peer, len(m.job.ranks))
	case r.tag < 1 || r.tag > m.job.o.MaxTag:
		return fmt.Errorf("fake: %s: tag %d, largest %d", what, r.tag, m.job.o.MaxTag)
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

func (c comm) Barrier() error {
	defer c.m.enter()()
	_, err := c.m.meet("barrier", 0, nil)
	return err
}

func (c comm) Broadcast(b []byte, root int) error {
	defer c.m.enter()()
	parts, err := c.m.meet("broadcast", root, b)
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
	parts, err := c.m.meet("gather", root, b)
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
