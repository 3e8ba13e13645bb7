package fake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// universe is what jobs have in common that can be connected.
type universe struct {
	mu    sync.Mutex // guards all of its jobs too
	jobs  []*Job
	ports []*port
	all   []*context // of inter-communicators, in the order in which they were accepted
}

// ranks returns the ranks of all jobs.
func (u *universe) ranks() iter.Seq[*MPI] {
	return func(yield func(*MPI) bool) {
		for _, j := range u.jobs {
			for _, m := range j.ranks {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// port is a port of a job.
type port struct {
	name    string
	owner   *Job
	waiting []*context // of jobs that connect
}

// context is what messages and receives of one communicator have in common. sides and left are those of an
// inter-communicator: the job that has connected, and the one that has accepted it.
type context struct {
	sides [2]*Job // sides[1] is nil until the connection is accepted
	left  []*MPI  // ranks that have called Disconnect
}

// freed reports whether a rank has disconnected the communicator.
func (c *context) freed(m *MPI) bool { return slices.Contains(c.left, m) }

var errPort = errors.New("fake: connect: no such port")

// OpenPort implements boundary.MPI.
func (m *MPI) OpenPort() (string, error) {
	defer m.enter()()
	if err := m.usable(); err != nil {
		return "", err
	}
	if m.job.o.NoConnections {
		return "", fmt.Errorf("fake: open a port: %w", boundary.ErrNoConnections)
	}
	u := m.job.joined
	p := &port{name: fmt.Sprintf("fake port %d", len(u.ports)), owner: m.job}
	u.ports = append(u.ports, p)
	return p.name, nil
}

// Accept implements boundary.MPI.
func (m *MPI) Accept(name string) (boundary.Comm, error) {
	return m.connection("accept", name, func(p *port) (*context, error) {
		if p.owner != m.job {
			return nil, errPort
		}
		for len(p.waiting) == 0 {
			if err := m.waitFor(m.job); err != nil {
				return nil, err
			}
		}
		c := p.waiting[0]
		p.waiting = p.waiting[1:]
		c.sides[1] = m.job
		for k, side := range c.sides {
			for _, r := range side.ranks {
				r.join(c, c.sides[1-k])
			}
		}
		m.job.joined.all = append(m.job.joined.all, c)
		c.sides[0].ring()
		return c, nil
	})
}

// Connect implements boundary.MPI.
func (m *MPI) Connect(name string) (boundary.Comm, error) {
	return m.connection("connect", name, func(p *port) (*context, error) {
		c := &context{sides: [2]*Job{m.job}}
		p.waiting = append(p.waiting, c)
		p.owner.ring()
		for c.sides[1] == nil {
			if err := m.waitFor(p.owner); err != nil {
				return nil, err
			}
		}
		return c, nil
	})
}

// Spawn implements boundary.MPI. The new job has the options of this one.
func (m *MPI) Spawn(p boundary.Program) (boundary.Comm, error) {
	if m.job.o.Spawn == nil {
		return nil, fmt.Errorf("fake: spawn: %w", boundary.ErrNoConnections)
	}
	if m.rank != 0 {
		return m.Connect("")
	}
	child := m.job.Beside(len(p.Hosts), m.job.o)
	port, err := child.Rank(0).OpenPort()
	if err != nil {
		return nil, err
	}
	child.parent = port
	m.job.o.Spawn(p, child)
	return m.Connect(port)
}

// Parent implements boundary.MPI.
func (m *MPI) Parent() (boundary.Comm, error) {
	if m.job.parent == "" {
		return nil, fmt.Errorf("fake: parent: %w", boundary.ErrNoParent)
	}
	return m.Accept(m.job.parent)
}

// connection is a collective call in which rank 0 connects the job with another one.
func (m *MPI) connection(what, name string, connect func(p *port) (*context, error)) (boundary.Comm, error) {
	defer m.enter()()
	if m.job.o.NoConnections {
		return nil, fmt.Errorf("fake: %s: %w", what, boundary.ErrNoConnections)
	}
	if _, err := m.meet(what, 0, nil); err != nil {
		return nil, err
	}
	u := m.job.joined
	index, err := -1, errPort
	if m.rank == 0 {
		if k := slices.IndexFunc(u.ports, func(p *port) bool { return p.name == name }); k >= 0 {
			var c *context
			if c, err = connect(u.ports[k]); err == nil {
				index = slices.Index(u.all, c)
			}
		}
	}
	parts, failed := m.meet(what, 0, binary.LittleEndian.AppendUint32(nil, uint32(index)))
	if failed != nil {
		return nil, failed
	}
	if index = int(int32(binary.LittleEndian.Uint32(parts[0]))); index < 0 {
		return nil, err
	}
	c := u.all[index]
	peers := c.sides[0]
	if peers == m.job {
		peers = c.sides[1]
	}
	return comm{m, c, peers}, nil
}

// waitFor waits until something has happened. It returns an error if that will not be what a rank of j does.
func (m *MPI) waitFor(j *Job) error {
	if err := m.usable(); err != nil {
		return err
	}
	if slices.ContainsFunc(j.ranks, func(r *MPI) bool { return r.killed && r.fate == Fail }) {
		return ErrKilled
	}
	m.progress()
	m.sleep(time.Time{})
	return m.usable()
}

// ring makes calls of all ranks look again.
func (j *Job) ring() {
	for _, m := range j.ranks {
		m.ring()
	}
}

// Disconnect implements boundary.Comm.
func (c comm) Disconnect() error {
	m := c.m
	defer m.enter()()
	switch err := m.usable(); {
	case err != nil:
		return err
	case c.peers == m.job:
		return errors.New("fake: disconnect: the communicator is the job's own")
	case c.context.freed(m):
		return errors.New("fake: disconnect: the communicator is disconnected")
	}
	for _, r := range m.requests {
		if r.comm.context == c.context {
			return errors.New("fake: disconnect: requests are left")
		}
	}
	c.context.left = append(c.context.left, m)
	c.peers.ring()
	m.job.ring()
	for len(c.context.left) < len(m.job.ranks)+len(c.peers.ranks) {
		if err := m.waitFor(c.peers); err != nil {
			return err
		}
	}
	m.inbox = slices.DeleteFunc(m.inbox, func(b *box) bool { return b.context == c.context })
	m.unexpected = slices.DeleteFunc(m.unexpected, func(e *message) bool { return e.context == c.context })
	return nil
}
