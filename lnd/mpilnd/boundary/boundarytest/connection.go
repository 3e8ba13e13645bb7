package boundarytest

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

// Side is one of two jobs that connect to each other.
type Side struct {
	// Publish, in the job that accepts, makes the name of its port known. It is nil in the other one.
	Publish func(port string) error
	// Lookup, in the job that connects, waits for the name of the other job's port.
	Lookup func() (port string, err error)
	// Program is what the job that spawns the other one starts. Spawned is set in that one.
	Program boundary.Program
	Spawned bool
}

// Connection is a test of two jobs.
type Connection struct {
	Name string
	run  func(*pair)
}

// Connections returns the tests of connections between two jobs, each of any number of ranks, in the order in which
// every rank of both must run them.
func Connections() []Connection {
	return []Connection{
		{"AcceptFirst", func(p *pair) { p.connected(0, 0) }},
		{"ConnectFirst", func(p *pair) { p.connected(50*time.Millisecond, 0) }},
		{"AcceptLong", func(p *pair) { p.connected(0, 50*time.Millisecond) }},
		{"Two", (*pair).two},
	}
}

// Spawning returns the test of a job that spawns another one. It is the first test in both.
func Spawning() Connection { return Connection{"Spawn", (*pair).spawn} }

// Run runs the test as one rank of one of the jobs, like Case.Run.
func (c Connection) Run(m boundary.MPI, s Side, patience time.Duration) error {
	return Case{c.Name, func(r *rank) { c.run(&pair{r, r.Comm, s}) }}.Run(m, patience)
}

// pair is one rank of one of two jobs.
type pair struct {
	*rank
	world boundary.Comm
	side  Side
}

func (p *pair) accepts() bool { return p.side.Publish != nil || p.side.Spawned }

// number is 0 in the job that accepts, and 1 in the other one.
func (p *pair) number() int {
	if p.accepts() {
		return 0
	}
	return 1
}

// join connects the jobs. A job waits for a time before it accepts or connects.
func (p *pair) join(accept, connect time.Duration) boundary.Comm {
	var port string
	var err error
	pause := accept
	switch {
	case !p.accepts() && p.me == 0:
		pause = connect
		port, err = p.side.Lookup()
	case p.me == 0:
		if port, err = p.m.OpenPort(); err == nil {
			err = p.side.Publish(port)
		}
	}
	p.must(err)
	later := time.NewTimer(pause)
	<-later.C
	join := p.m.Connect
	if p.accepts() {
		join = p.m.Accept
	}
	c, err := join(port)
	p.must(err)
	if c.Rank() != p.me || c.Size() < 1 {
		p.fail("rank %d of %d is connected with %d", c.Rank(), p.world.Size(), c.Size())
	}
	return c
}

// exchange exchanges messages of one length with all ranks of the other job, over c.
func (p *pair) exchange(c boundary.Comm, n, seed int) {
	const tag = 5
	p.Comm = c
	var sends, receives []message
	for peer := range c.Size() {
		b := make([]byte, n)
		receives = append(receives, message{peer, tag, p.receive(peer, tag, b), b, pattern(n, 1-p.number(), peer, p.me, seed)})
	}
	for peer := range c.Size() {
		sends = append(sends, message{id: p.send(peer, tag, pattern(n, p.number(), p.me, peer, seed))})
	}
	p.all(sends, receives)
	p.Comm = p.world
}

// connected connects the jobs, and uses the connection.
func (p *pair) connected(accept, connect time.Duration) {
	p.use(p.join(accept, connect))
}

// spawn connects a job with one that it starts. This one has no parent.
func (p *pair) spawn() {
	var c boundary.Comm
	var err error
	if p.side.Spawned {
		c, err = p.m.Parent()
	} else {
		if _, none := p.m.Parent(); !errors.Is(none, boundary.ErrNoParent) {
			p.fail("the parent of a job that was not spawned: %v", none)
		}
		c, err = p.m.Spawn(p.side.Program)
	}
	p.must(err)
	p.use(c)
}

// use exchanges messages with the other job beside those of the own job, and disconnects.
func (p *pair) use(c boundary.Comm) {
	b := make([]byte, 10)
	own := p.receive(boundary.Any, 5, b) // no message of the other job is matched with it
	for k, n := range []int{0, 1, 32, 8 << 10, 100 << 10, 1 << 20} {
		p.exchange(c, n, k)
	}
	p.Comm = c
	p.cancel(p.receive(boundary.Any, 6, make([]byte, 10)))
	p.Comm = p.world
	sent := p.send(p.me, 5, pattern(10, p.me))
	p.received(own, p.me, 5, b, pattern(10, p.me))
	p.sent(sent)
	if c.Barrier() == nil || c.Broadcast(b, 0) == nil || c.Gather(nil, nil, 0) == nil {
		p.fail("a collective call over two jobs succeeded")
	}
	p.must(c.Disconnect())
	if p.world.Disconnect() == nil {
		p.fail("the job's own communicator was disconnected")
	}
}

// two connects the jobs twice. Messages of the two connections are not mixed.
func (p *pair) two() {
	first := p.join(0, 0)
	p.must(p.world.Barrier())
	second := p.join(0, 0)
	p.exchange(second, 100, 1)
	p.exchange(first, 100, 2)
	p.must(first.Disconnect())
	p.exchange(second, 100<<10, 3)
	p.must(second.Disconnect())
}
