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

// machineSlot runs one transfer machine after another, all with the same plan and address.
type machineSlot struct {
	machineSlotPlan
	layer *transportLayer
	index int

	changing chan struct{} // a lock of one element, held while a machine is started or stopped
	machine  *machine      // the running machine, or nil; guarded by world.mu
}

// machine is a transfer machine from creation to end, and what the checker records about it. It handles
// its own events and those of its buffers.
type machine struct {
	*machineSlot
	tm         *transport.TransferMachine
	callbacks  transport.Callbacks
	channel    *transport.Channel // for synchronous delivery; nil: use the channel of the transfer machine
	deliverer  sync.WaitGroup
	inCallback atomic.Bool // bufferEvent is running

	// Guarded by world.mu.
	address     transport.Address // set when it has started
	started     bool
	stopping    bool                         // the program has called stop
	aborted     bool                         // the operations were aborted, or the pool's buffers were cancelled
	over        bool                         // the machine has stopped or failed
	loans       int                          // number of loans that have not ended, apart from a pool's buffers
	endPoints   int                          // number of end points in use
	passiveBits map[transport.MatchBits]bool // match bits of all passive buffers so far
	tallies     [transport.QueueTypes]transport.Stats
	finals      [transport.QueueTypes]uint64
	stats       [transport.QueueTypes]transport.Stats // the machine's own statistics at the end
}

func (m *machine) String() string {
	return fmt.Sprintf("%v's machine %v", m.layer.life, m.address)
}

func (b *machineSlot) world() *world { return b.layer.life.member.w }

// nid returns the NID of the slot's machines.
func (b *machineSlot) nid() lnet.NID {
	if b.rail == loopback {
		return lnet.LoopbackNID
	}
	return b.layer.life.member.nids[b.rail]
}

// running returns the running machine, or nil.
func (b *machineSlot) running() *machine {
	w := b.world()
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.machine
}

// start starts a machine in the slot, unless one is running. It returns when the machine has started or
// has failed to start.
func (b *machineSlot) start() {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	if b.running() != nil {
		return
	}
	w, s := b.world(), b.layer
	m := &machine{machineSlot: b, passiveBits: map[transport.MatchBits]bool{}}
	for q := range m.callbacks {
		m.callbacks[q] = m.bufferEvent
	}
	if err := m.create(); err != nil {
		w.violate("%v: new machine: %v", s.life, err)
		return
	}
	w.mu.Lock()
	s.machines = append(s.machines, m)
	w.mu.Unlock()
	absent, changes := b.absent()
	a := transport.Address{NID: b.nid(), PID: lnet.PIDLustre, Portal: portalMachines, TMID: b.number}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := m.tm.Start(a.String())
	if err == nil {
		err = m.tm.Await(ctx, transport.StateStarted)
	}
	w.addf("%v: machine starts at %v: %v", s.life, a, err)
	if err != nil {
		gone, after := b.absent()
		if absent = absent || gone || after != changes; absent && errors.Is(err, syscall.ENOENT) {
			w.countAction(ActionNoAddress)
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
			if c := s.addBuffer(w.newRegion(b.size, 1), nil); c != nil {
				m.receive(c, m.tm.Add)
			}
		}
	}
}

// create creates the transfer machine, and sets its delivery, pool and colour.
func (m *machine) create() error {
	s := m.layer
	var err error
	if m.tm, err = s.domain.NewTM(m.event); err != nil {
		return err
	}
	if m.synchronous {
		err = m.tm.DeliverSynchronously()
		if m.index%2 == 0 {
			m.channel = new(transport.Channel)
		}
	}
	if m.pooled && err == nil {
		err = m.tm.AttachPool(s.pool, transport.Provisioning{
			Callbacks: &m.callbacks, MinReceiveSize: messageMax, MaxMessages: m.maxMessages, QueueLength: m.queueLength,
		})
	}
	return errors.Join(err, m.tm.SetColour(m.colour))
}

// absent reports whether the slot's NI is absent. It also returns how often the node's NIs have changed.
func (b *machineSlot) absent() (bool, int) {
	w, l := b.world(), b.layer.life
	w.mu.Lock()
	defer w.mu.Unlock()
	return b.rail != loopback && !l.present[b.rail], l.changes
}

// event is the callback for the machine's state changes.
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
			w.violate("%v: has stopped without a call of Stop, or with an error: %v", m, e.Err)
		}
		m.ended()
	case e.Next == transport.StateFailed:
		if m.started {
			if !errors.Is(e.Err, syscall.EPIPE) || !m.layer.life.ending {
				w.violate("%v: has failed: %v", m, e.Err)
			}
			w.result.Actions[ActionNodeClosed]++
		}
		m.ended()
	default:
		w.violate("%v: event %+v", m, *e)
	}
}

// begun records that the machine has started, and checks that its address is as planned and its number
// unique on the node. w.mu is held.
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
	for _, other := range m.layer.machines {
		if other != m && other.started && !other.over && !other.stopping && other.address.TMID == a.TMID {
			w.violate("%v: %v has the same number", m, other)
		}
	}
}

// ended records that the machine has ended. w.mu is held.
func (m *machine) ended() {
	m.over = true
	m.stats = m.tm.AllStats()
	if m.inCallback.Load() {
		m.world().violate("%v: it is over, and a callback runs", m)
	}
	if m.channel != nil {
		m.channel.Signal()
	}
}

// deliver delivers the events of a machine with synchronous delivery until the machine has ended.
func (m *machine) deliver() {
	c := m.channel
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
			m.world().countAction(ActionSynchronous)
		}
	}
}

// stop stops the running machine, if any: with abort, or after waiting for its operations.
func (b *machineSlot) stop(abort bool) {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
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
	action := ActionAborted
	if !abort {
		action = ActionStopped
		m.drain()
	}
	m.end()
	w.countAction(action)
}

// drain stops the machine without abort: it waits half a second and then cancels the buffers that are
// still queued. It leaves a machine with a pool to be aborted by end, because the program cannot cancel
// the pool's buffers.
func (m *machine) drain() {
	w := m.world()
	if err := m.tm.Stop(); err != nil && m.layer.life.running() {
		w.violate("%v: stop: %v", m, err)
	}
	pause(500 * time.Millisecond)
	w.mu.Lock()
	m.aborted = m.pooled
	var loans []*loan
	for _, c := range m.layer.buffers {
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
	if err := m.tm.Await(ctx, transport.StateStopped); err != nil && m.layer.life.running() {
		w.violate("%v: all was cancelled, and it does not stop: %v", m, err)
	}
}

// awaitFailure waits until the running machine, if any, fails because its node has closed, and then
// closes the machine.
func (b *machineSlot) awaitFailure() {
	b.changing <- struct{}{}
	defer func() { <-b.changing }()
	w := b.world()
	w.mu.Lock()
	m := b.machine
	b.machine = nil
	w.mu.Unlock()
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := m.tm.Await(ctx, transport.StateFailed); err != nil {
		w.violate("%v: its node has closed, and it does not fail: %v", m, err)
	}
	m.end()
}

// immediateWithin is the time limit for actions that wait for nothing if there are no faults.
const immediateWithin = 2 * time.Second

// end shuts the transfer machine down and waits for its end. It records a violation if that takes too
// long.
func (m *machine) end() {
	w := m.world()
	began := w.since()
	ctx, cancel := context.WithTimeout(context.Background(), w.operationWithin()+callTimeout)
	defer cancel()
	err := m.tm.Shutdown(ctx)
	within := w.operationWithin()
	if w.faultless() {
		within = immediateWithin
	}
	if took := w.since() - began; took > within {
		w.violate("%v: took %v to stop", m, took)
	}
	if errors.Is(err, syscall.EBUSY) && m.layer.await("end points to be put", func() bool { return m.endPoints == 0 }) {
		err = m.tm.Close()
	}
	if err != nil {
		w.violate("%v: shut down: %v", m, err)
		return
	}
	m.deliverer.Wait()
	w.addf("%v has ended", m)
}
