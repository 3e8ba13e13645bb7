package rdma

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Interface is the driver's part of one NI.
type Interface struct {
	fabric   *Fabric
	driver   *Driver
	nid      lnet.NID
	name     string
	upper    lnd.Upper
	tunables lnd.Tunables
	life     uint64
	idle     chan struct{} // closed when run has ended

	// The following fields are guarded by the fabric's lock.
	device   device
	link     lnd.LinkState
	closed   bool
	stopped  bool // run has ended, or will end soon
	ends     map[lnet.NID]*end
	met      map[lnet.NID]uint64    // lives of peers
	telling  map[lnet.NID]int       // PeerRestarted calls in progress
	heard    map[lnet.NID]time.Time // time of the last message, by peer
	steps    []func()               // for run
	wake     sync.Cond
	counters struct{ immediate, puts, gets, direct, bounced uint64 }
}

var (
	_ lnd.Interface    = (*Interface)(nil)
	_ memory.Registrar = (*Interface)(nil)
)

// post queues a step for the interface's goroutine, which runs it without the lock. The lock is held.
func (i *Interface) post(step func()) {
	i.steps = append(i.steps, step)
	i.wake.Signal()
}

// run makes upcalls and completions, in order, until the interface is closed and none are left.
func (i *Interface) run() {
	f := i.fabric
	defer close(i.idle)
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(i.steps) == 0 {
			if i.closed {
				i.stopped = true
				i.device.close()
				return
			}
			i.wake.Wait()
		}
		steps := i.steps
		i.steps = nil
		f.mu.Unlock()
		for _, step := range steps {
			step()
		}
		f.mu.Lock()
	}
}

// NID implements lnd.Interface, as do the following methods.
func (i *Interface) NID() lnet.NID { return i.nid }

// Device returns the device name from Config.
func (i *Interface) Device() string { return i.name }

// LargeNIDs returns false, because verbs have no header for large NIDs (o2iblnd 2).
func (i *Interface) LargeNIDs() bool { return false }

// Tunables returns the current tunables.
func (i *Interface) Tunables() lnd.Tunables { return i.tunables }

// Timeout returns a value that has no effect: nothing is lost here without notice.
func (i *Interface) Timeout() time.Duration { return 50 * time.Second }

// Options returns nil, because the driver has no options.
func (i *Interface) Options() any { return nil }

// Refusals returns zeros, because no connection is refused.
func (i *Interface) Refusals() lnd.RefusalCounts { return lnd.RefusalCounts{} }

// Link returns the state of the device's link.
func (i *Interface) Link() lnd.LinkState {
	i.fabric.mu.Lock()
	defer i.fabric.mu.Unlock()
	return i.link
}

// Counters returns counts of messages by the way in which they were sent.
func (i *Interface) Counters() []lnd.Counter {
	i.fabric.mu.Lock()
	defer i.fabric.mu.Unlock()
	c := &i.counters
	return []lnd.Counter{
		{Name: "immediate_total", Value: c.immediate, Help: "Messages sent without RDMA."},
		{Name: "rdma_puts_total", Value: c.puts, Help: "PUTs and REPLYs placed at the peer."},
		{Name: "rdma_gets_total", Value: c.gets, Help: "GETs answered at the peer."},
		{Name: "direct_total", Value: c.direct, Help: "Memory that the device took as it is."},
		{Name: "bounced_total", Value: c.bounced, Help: "Memory that went through the pool."},
	}
}

// Register implements memory.Registrar.
func (i *Interface) Register(b []byte) (memory.Registration, error) {
	f := i.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.closed {
		return nil, failure("register", lnet.NID{}, lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	if i.driver.err != nil {
		return nil, failure("register", lnet.NID{}, lnd.StatusLocalError, i.driver.err)
	}
	return i.device.register(b), nil
}

// Send implements lnd.Interface.
func (i *Interface) Send(tx *lnd.Tx) {
	f := i.fabric
	f.mu.Lock()
	if i.stopped {
		f.mu.Unlock()
		tx.Done.Sent(tx, failure("send", tx.To.NID, lnd.StatusLocalAborted, lnd.ErrClosed))
		return
	}
	defer f.mu.Unlock()
	m := &transfer{tx: tx, from: i}
	if h := &tx.Header; h.Src.IsLarge() || h.Dest.IsLarge() {
		f.violated("a header with a large NID: %s to %s", h.Src, h.Dest)
	}
	if i.closed {
		m.sent(failure("send", tx.To.NID, lnd.StatusLocalAborted, lnd.ErrClosed))
		return
	}
	e := i.connect(tx.To.NID)
	if e == nil {
		err := failure("connect", tx.To.NID, lnd.StatusRemoteDropped, lnd.ErrUnreachable)
		m.sent(err)
		i.lost(tx.To.NID, err)
		return
	}
	m.end = e
	k := slices.IndexFunc(e.out, func(o *transfer) bool { return tx.Urgent && !o.tx.Urgent })
	if k < 0 {
		k = len(e.out)
	}
	e.out = slices.Insert(e.out, k, m)
	e.pump()
}

// Receive implements lnd.Interface.
func (i *Interface) Receive(rx *lnd.Rx, p lnd.Placement) {
	f := i.fabric
	m := rx.Driver.(*transfer)
	f.mu.Lock()
	if i.stopped {
		f.mu.Unlock()
		m.received(p, m.lost())
		return
	}
	defer f.mu.Unlock()
	i.post(func() { m.place(p) })
}

// Disconnect implements lnd.Interface.
func (i *Interface) Disconnect(peer lnet.NID) {
	i.fabric.mu.Lock()
	defer i.fabric.mu.Unlock()
	if e := i.ends[peer]; e != nil {
		e.kill(lnd.StatusLocalAborted, lnd.ErrDisconnected)
	}
}

// Recall implements lnd.Interface.
func (i *Interface) Recall(peer lnet.NID, which func(m *lnd.Tx) bool) {
	i.fabric.mu.Lock()
	defer i.fabric.mu.Unlock()
	for nid, e := range i.ends {
		if !peer.IsZero() && nid != peer {
			continue
		}
		var rest []*transfer
		for _, m := range e.out {
			if which(m.tx) {
				m.sent(failure("send", nid, lnd.StatusLocalInterrupt, lnd.ErrRecalled))
			} else {
				rest = append(rest, m)
			}
		}
		e.out = rest
	}
}

// LinkBack implements lnd.Interface. It does nothing, because messages have no timeouts here.
func (*Interface) LinkBack(lnet.NID) {}

// Probe implements lnd.Interface. A connection ends with the peer's life, so no check is necessary.
func (i *Interface) Probe(peer lnet.NID) bool {
	i.fabric.mu.Lock()
	defer i.fabric.mu.Unlock()
	return i.ends[peer] != nil
}

// Close implements lnd.Interface.
func (i *Interface) Close(ctx context.Context) error {
	f := i.fabric
	f.mu.Lock()
	if i.closed {
		f.mu.Unlock()
		return lnd.ErrClosed
	}
	i.closed = true
	delete(f.ports, i.nid)
	for _, e := range i.ends {
		e.kill(lnd.StatusLocalAborted, lnd.ErrClosed)
	}
	i.wake.Signal()
	f.mu.Unlock()
	select {
	case <-i.idle:
		return nil
	case <-ctx.Done():
		return errors.Join(lnd.ErrTimeout, context.Cause(ctx))
	}
}
