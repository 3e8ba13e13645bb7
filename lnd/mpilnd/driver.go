package mpilnd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

const (
	driverName = "mpilnd"
	batch      = 64                     // completions that one call of MPI.Poll reports
	tick       = 200 * time.Millisecond // interval at which peers are watched
)

// Driver serves one process of a job. It has at most one interface at a time.
type Driver struct {
	config Config
	log    *boundedlog.Log
	count  counters

	mu       sync.Mutex // guards the fields below
	tasks    []task
	running  bool // a goroutine works off the tasks, or Run will
	sleeping bool // Run is in a call of MPI.Poll that waits
	stopping bool // Close was called

	// Only tasks, and Run between them, use the fields below.
	spare    []task // the memory of a former list
	ni       *ni    // the open interface, or nil
	peers    map[Place]*peer
	requests requests
	memory   buffers
	touched  []*peer // peers to which credits may have to be returned
	unused   unused
	broken   error     // why MPI cannot be used any more
	watched  time.Time // when the peers were last watched
}

// task is a call of a method, or a function. Only one of the fields is set.
type task struct {
	send    *lnd.Tx  // Interface.Send
	by      *ni      // the interface of send
	receive *arrival // Interface.Receive
	call    func()
}

// New returns a driver. The caller must call Run. A process creates one driver in the life of its job, because peers
// remember the numbers of its links.
func New(c Config) (*Driver, error) {
	if c.MPI == nil || c.Peers == nil || len(c.Comms) == 0 {
		return nil, errors.New("mpilnd: MPI, Comms and Peers must be set")
	}
	if err := fields.Validate(&c); err != nil {
		return nil, fmt.Errorf("mpilnd: %w", err)
	}
	if c.Type == 0 {
		c.Type = DefaultType
	}
	d := &Driver{config: c, log: boundedlog.New(c.Logger), running: true, peers: make(map[Place]*peer)}
	d.memory.short = shortSize(c.ShortMax)
	return d, nil
}

// Type implements lnd.Driver.
func (d *Driver) Type() lnet.NetType { return d.config.Type }

// Open implements lnd.Driver. Config.NID must be set. Open waits until Run has opened the interface.
func (d *Driver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.newNI(&c)
	if err != nil {
		return nil, fmt.Errorf("mpilnd: open %s: %w", c.Net, err)
	}
	opened := make(chan error, 1)
	d.do(task{call: func() { opened <- i.open() }})
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = context.Cause(ctx)
		d.do(task{call: func() {
			if d.ni == i {
				i.shut()
			}
		}})
	}
	if err != nil {
		return nil, fmt.Errorf("mpilnd: open %s: %w", c.Net, err)
	}
	return i, nil
}

// Close makes Run return. The interface must be closed before.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
	d.config.MPI.Wake()
}

// Run makes all calls of MPI, all upcalls and all completions, until Close is called or MPI fails. It must be called
// once, by the goroutine that has opened MPI, on the same thread. When it returns nil, the caller may close MPI.
func (d *Driver) Run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer d.runRest()
	defer func() {
		if d.broken == nil {
			d.broken = lnd.ErrClosed
		}
	}()
	done := make([]boundary.Done, batch)
	for {
		d.runTasks()
		d.returnCredits()
		wait, stop := d.pause()
		if stop {
			return nil
		}
		n, err := d.config.MPI.Poll(done, wait)
		d.awake()
		if err != nil {
			d.fail(fmt.Errorf("poll: %w", err))
			return err
		}
		for k := range done[:n] {
			d.requests.complete(d, &done[k])
		}
		d.watch()
	}
}

// pause returns how long the next Poll may wait. stop is set when Run has to return.
func (d *Driver) pause() (wait time.Duration, stop bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(d.tasks) > 0:
		return 0, false
	case d.stopping:
		return 0, true
	}
	d.sleeping = true
	if d.ni == nil {
		return time.Hour, false
	}
	return max(0, tick-time.Since(d.watched)), false
}

func (d *Driver) awake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sleeping = false
}

// do adds a task. Tasks run one after the other, in the goroutine of Run. When that has returned, they run in the
// goroutine of a caller of do, which also runs those that are added meanwhile. So tasks do not recurse.
func (d *Driver) do(t task) {
	d.mu.Lock()
	d.tasks = append(d.tasks, t)
	wake, alone := d.sleeping, !d.running
	if alone {
		d.running = true
	}
	d.sleeping = false
	d.mu.Unlock()
	if wake {
		d.config.MPI.Wake()
	}
	if alone {
		d.runRest()
	}
}

// runRest runs all tasks, and lets the next caller of do run later ones.
func (d *Driver) runRest() {
	for {
		d.runTasks()
		d.mu.Lock()
		if len(d.tasks) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// runTasks runs the tasks in the list.
func (d *Driver) runTasks() {
	d.mu.Lock()
	list := d.tasks
	d.tasks, d.spare = d.spare[:0], nil
	d.mu.Unlock()
	for k := range list {
		switch t := &list[k]; {
		case t.send != nil:
			t.by.send(t.send)
		case t.receive != nil:
			t.receive.placed()
		default:
			t.call()
		}
	}
	clear(list)
	d.spare = list
}

// watch watches the peers if that is due, and ends an interface that is closing.
func (d *Driver) watch() {
	i := d.ni
	if i == nil {
		return
	}
	if now := time.Now(); now.Sub(d.watched) >= tick {
		d.watched = now
		for _, p := range d.peers {
			p.watch(now)
		}
		if !i.closed {
			_ = d.postPool() // again at the next time
		}
	}
	if i.closed {
		i.finish(false)
	}
}

// fail is called when MPI cannot be used any more: nothing that was requested completes.
func (d *Driver) fail(err error) {
	d.broken = err
	_ = d.report(err)
	for _, p := range d.peers {
		p.end(ending{seen: lnd.StatusLocalError, unseen: lnd.StatusLocalError, err: failed(err)})
	}
	if i := d.ni; i != nil {
		i.finish(true)
		i.linkDown()
	}
}

// peer returns the peer at a place, or nil if no process there uses LNet, or if it is this process.
func (d *Driver) peer(at Place) *peer {
	if p := d.peers[at]; p != nil {
		return p
	}
	id, ok := d.config.Peers.Process(at)
	if !ok || at.Comm < 0 || at.Comm >= len(d.config.Comms) || d.ni != nil && id.NID == d.ni.config.NID {
		return nil
	}
	p := newPeer(d, at, id)
	d.peers[at] = p
	return p
}

func failure(op string, nid lnet.NID, s lnd.Status, err error) *lnd.Error {
	return &lnd.Error{Driver: driverName, Op: op, Peer: nid, Status: s, Err: err}
}

// unreachable is the error of messages to NIDs that no process has.
func unreachable(nid lnet.NID) error {
	return failure("send", nid, lnd.StatusRemoteError, peering.ErrNoWay)
}
