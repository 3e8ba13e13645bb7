package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// berth is a place in which one transfer machine after another runs.
type berth struct {
	berthPlan
	station *station
	index   int

	turn    chan struct{} // full while a machine is started or stopped
	machine *machine      // the running one, or nil; guarded by world.mu
}

// machine is a transfer machine from creation to end. It handles its own events and those of its buffers.
type machine struct {
	*berth
	tm        *transport.TransferMachine
	callbacks transport.Callbacks
	own       *transport.Channel // for synchronous delivery, separate from the TM's; nil: use the TM's
	deliverer sync.WaitGroup
	inside    atomic.Bool // a callback is running

	// Guarded by world.mu.
	address  transport.Address // set when it has started
	started  bool
	stopping bool                         // the program has requested the stop
	aborted  bool                         // with abort
	over     bool                         // it has stopped or failed
	open     int                          // loans that have not ended, without a pool's buffers
	held     int                          // end points in use
	exposed  map[transport.MatchBits]bool // its passive buffers
	tallies  [transport.QueueTypes]transport.Stats
	finals   [transport.QueueTypes]uint64
	stats    [transport.QueueTypes]transport.Stats // its own statistics at the end
}

func (m *machine) String() string {
	return fmt.Sprintf("%v's machine %v", m.station.life, m.address)
}

func (b *berth) world() *world { return b.station.life.member.w }

// nid returns the NID of the berth's machines.
func (b *berth) nid() lnet.NID {
	if b.rail == loopback {
		return lnet.LoopbackNID
	}
	return b.station.life.member.nids[b.rail]
}

// running returns the running machine, or nil.
func (b *berth) running() *machine {
	w := b.world()
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.machine
}

// start starts a machine, unless one is running.
func (b *berth) start() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.running() != nil {
		return
	}
	w, s := b.world(), b.station
	m := &machine{berth: b, exposed: map[transport.MatchBits]bool{}}
	for q := range m.callbacks {
		m.callbacks[q] = m.bufferEvent
	}
	if err := m.make(); err != nil {
		w.violate("%v: new machine: %v", s.life, err)
		return
	}
	w.mu.Lock()
	s.machines = append(s.machines, m)
	w.mu.Unlock()
	absent, changes := b.absent()
	a := transport.Address{NID: b.nid(), PID: lnet.PIDLustre, Portal: portalMachines, TMID: b.number}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := m.tm.Start(a.String())
	if err == nil {
		err = m.tm.Await(ctx, transport.StateStarted)
	}
	w.addf("%v: machine starts at %v: %v", s.life, a, err)
	if err != nil {
		gone, after := b.absent()
		if absent = absent || gone || after != changes; absent && errors.Is(err, syscall.ENOENT) {
			w.countDeed(DeedNoAddress)
		} else if s.life.running() {
			w.violate("%v: start machine at %v: %v", s.life, a, err)
		}
		m.end()
		return
	}
	if b.synchronous {
		m.deliverer.Go(m.deliver)
	}
	w.mu.Lock()
	b.machine = m
	s.life.member.addresses[b.index] = m.address
	w.mu.Unlock()
	if !b.pooled {
		for range b.queueLength {
			if c := s.addCrate(w.newRegion(b.size, 1), nil); c != nil {
				m.receive(c, m.tm.Add)
			}
		}
	}
}

// make creates the transfer machine.
func (m *machine) make() error {
	s := m.station
	var err error
	if m.tm, err = s.domain.NewTM(m.event); err != nil {
		return err
	}
	if m.synchronous {
		err = m.tm.DeliverSynchronously()
		if m.index%2 == 0 {
			m.own = new(transport.Channel)
		}
	}
	if m.pooled && err == nil {
		err = m.tm.AttachPool(s.pool, transport.Provisioning{
			Callbacks: &m.callbacks, MinReceiveSize: letterMax, MaxMessages: m.maxMessages, QueueLength: m.queueLength,
		})
	}
	return errors.Join(err, m.tm.SetColour(m.colour))
}

// absent reports whether the berth's NI is absent. It also returns how often the NIs have changed.
func (b *berth) absent() (bool, int) {
	w, l := b.world(), b.station.life
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.rail != loopback && !l.present[b.rail], l.changes
}

// event handles the machine's own events.
func (m *machine) event(e *transport.TMEvent) {
	w := m.world()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type != transport.TMStateChange || m.over:
		w.violate("%v: event %+v", m, *e)
	case e.Next == transport.StateStarted:
		m.begun(e)
	case e.Next == transport.StateStopped:
		if !m.stopping || e.Err != nil {
			w.violate("%v: has stopped, and nobody wanted that: %v", m, e.Err)
		}
		m.ended()
	case e.Next == transport.StateFailed:
		if m.started {
			if !errors.Is(e.Err, syscall.EPIPE) || !m.station.life.ending {
				w.violate("%v: has failed: %v", m, e.Err)
			}
			w.result.Deeds[DeedDown]++
		}
		m.ended()
	default:
		w.violate("%v: event %+v", m, *e)
	}
}

// begun records that the machine has started, and checks that its number is unique. w.mu is held.
func (m *machine) begun(e *transport.TMEvent) {
	w := m.world()
	if m.started || m.over || e.EndPoint == nil {
		w.violate("%v: has started again: %+v", m, *e)
		return
	}
	a := e.EndPoint.Address()
	number := a.TMID
	if m.number != transport.Dynamic {
		number = m.number
	}
	if want := (transport.Address{NID: m.nid(), PID: lnet.PIDLustre, Portal: portalMachines, TMID: number}); a != want {
		w.violate("%v: is at %v, not %v", m, a, want)
	}
	m.started, m.address = true, a
	for _, other := range m.station.machines {
		if other != m && other.started && !other.over && !other.stopping && other.address.TMID == a.TMID {
			w.violate("%v: %v has the same number", m, other)
		}
	}
}

// ended records that the machine has ended. w.mu is held.
func (m *machine) ended() {
	m.over = true
	m.stats = m.tm.AllStats()
	if m.inside.Load() {
		m.world().violate("%v: it is over, and a callback runs", m)
	}
	if m.own != nil {
		m.own.Signal()
	}
}

// deliver delivers the machine's events until it has ended (synchronous delivery).
func (m *machine) deliver() {
	c := m.own
	if c == nil {
		c = m.tm.Channel()
	}
	for {
		wake := c.Wait()
		if !m.tm.Pending() {
			if err := m.tm.Notify(c); err == nil {
				<-wake
			}
		}
		n, err := m.tm.DeliverAll()
		if err != nil {
			if s := m.tm.State(); s == transport.StateStarted || s == transport.StateStopping {
				m.world().violate("%v: is %v, and cannot deliver: %v", m, s, err)
			}
			return
		}
		if n > 0 {
			m.world().countDeed(DeedSynchronous)
		}
	}
}

// stop stops the running machine, if any: with abort, or after waiting for its operations.
func (b *berth) stop(abort bool) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	w := b.world()
	w.mu.Lock()
	m := b.machine
	b.machine = nil
	if m == nil {
		w.mu.Unlock()
		return
	}
	m.stopping = true
	m.aborted = abort
	w.mu.Unlock()
	w.addf("%v stops, abort %t", m, abort)
	deed := DeedAborted
	if !abort {
		deed = DeedDrained
		m.drain()
	}
	m.end()
	w.countDeed(deed)
}

// drain stops the machine without abort, and ends the queued operations itself. That is not possible with
// a pool.
func (m *machine) drain() {
	w := m.world()
	if err := m.tm.Stop(); err != nil && m.station.life.running() {
		w.violate("%v: stop: %v", m, err)
	}
	pause(500 * time.Millisecond)
	w.mu.Lock()
	m.aborted = m.pooled
	var loans []*loan
	for _, c := range m.station.crates {
		if c.loan != nil && c.loan.machine == m {
			loans = append(loans, c.loan)
		}
	}
	w.mu.Unlock()
	if m.pooled {
		return
	}
	for _, l := range loans {
		l.cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.operationWithin())
	defer cancel()
	if err := m.tm.Await(ctx, transport.StateStopped); err != nil && m.station.life.running() {
		w.violate("%v: all was cancelled, and it does not stop: %v", m, err)
	}
}

// fall ends the running machine, if any, after its node has closed.
func (b *berth) fall() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	w := b.world()
	w.mu.Lock()
	m := b.machine
	b.machine = nil
	w.mu.Unlock()
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.tm.Await(ctx, transport.StateFailed); err != nil {
		w.violate("%v: its node has closed, and it does not fail: %v", m, err)
	}
	m.end()
}

// promptly is the time limit for actions that take no time unless there is a bug.
const promptly = 2 * time.Second

// end waits for the end of the transfer machine, which must come in time.
func (m *machine) end() {
	w := m.world()
	began := w.since()
	ctx, cancel := context.WithTimeout(context.Background(), w.operationWithin()+patience)
	defer cancel()
	err := m.tm.Shutdown(ctx)
	within := w.operationWithin()
	if w.faultless() {
		within = promptly
	}
	if took := w.since() - began; took > within {
		w.violate("%v: took %v to stop", m, took)
	}
	if errors.Is(err, syscall.EBUSY) && m.station.await("end points to be put", func() bool { return m.held == 0 }) {
		err = m.tm.Close()
	}
	if err != nil {
		w.violate("%v: shut down: %v", m, err)
		return
	}
	m.deliverer.Wait()
	w.addf("%v has ended", m)
}
