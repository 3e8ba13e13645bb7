package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// Engine is the part of an interface that is the same for all drivers: the table of peers, the upcalls about
// them, and the end of the interface. A driver embeds it in its own type and calls Init. The engine then
// implements the methods of lnd.Interface that are about peers and the link. P is the driver's type of peers.
//
// One goroutine of the driver calls Late, SettleDoubt, CheckStall and Forget regularly for each peer. It also
// calls SettleDoubts after Setup.Doubted was called.
type Engine[P Member] struct {
	Setup[P]
	Out   Outbox
	Count Counters
	// Context is done when the interface closes.
	Context context.Context
	// Group counts the goroutines and operations that Stop waits for. Only two callers may add to it, because
	// others could do so after Stop has finished: a goroutine that Group already counts, and a caller that
	// holds the lock of a peer that is not Gone.
	Group sync.WaitGroup

	cancel context.CancelFunc
	closed atomic.Bool // a copy of closing that can be read without mu
	link   *hostnet.Link

	mu      sync.RWMutex // guards the fields below
	closing bool
	peers   map[lnet.ProcessID]P
	others  int // peers with another PID than lnet.PIDLustre
	doubted []P // peers that SettleDoubts has to probe
	// Departed holds peers that have left the table. Admission limits inbound connections. A driver uses both
	// within a function that it passes to Locked.
	Departed  Departed
	Admission Admission
}

// Setup is what a driver passes to Engine.Init.
type Setup[P Member] struct {
	*Place
	Driver string       // its name, for errors
	Flow   lnd.Tunables // the tunables in force, with defaults filled in
	// PerSource limits the inbound connections from one address.
	PerSource int
	// MinPause and MaxPause bound the pause after a failed attempt to connect.
	MinPause, MaxPause time.Duration

	// New returns a new peer. The engine then sets its ID, and the record and back-off that it remembers of
	// an earlier entry. New is called with the engine's lock held.
	New func() P
	// Reachable reports whether this node can connect to a peer with this ID.
	Reachable func(id lnet.ProcessID) bool
	// Doubted is called when there are peers for SettleDoubts to probe. It makes the driver's goroutine call
	// SettleDoubts soon. It must not block. It is called with locks held.
	Doubted func()
	// Make makes the upcall or completion of an event that the driver has defined (OwnEvents). It is nil for
	// a driver without such events.
	Make func(*Event)
}

// Init prepares the engine. It must be called once, before any other method.
func (e *Engine[P]) Init(s Setup[P]) {
	e.Setup = s
	e.Out.Make = e.make
	e.Context, e.cancel = context.WithCancel(context.Background())
	e.peers = make(map[lnet.ProcessID]P)
	e.Admission = NewAdmission(s.PerSource)
}

// Closed reports whether the interface is closing.
func (e *Engine[P]) Closed() bool { return e.closed.Load() }

// Refusals implements lnd.Interface.
func (e *Engine[P]) Refusals() lnd.RefusalCounts { return e.Count.Refused.Counts() }

// CallFailures implements lnd.Caller.
func (e *Engine[P]) CallFailures() lnd.CallFailureCounts { return e.Count.CallFailures.Counts() }

// Error returns the lnd.Error of an operation on a peer, with the driver's name.
func (e *Engine[P]) Error(op string, peer lnet.NID, s lnd.Status, err error) *lnd.Error {
	return &lnd.Error{Driver: e.Driver, Op: op, Peer: peer, Status: s, Err: err}
}

// Submit sends m to the process to. It creates the peer if it is not in the table. If the peer cannot be
// reached, m fails.
func (e *Engine[P]) Submit(m *lnd.Tx, to lnet.ProcessID) {
	if p, ok := m.Neighbour.Record().(P); ok && p.Common().is(to, e.Place) && p.Send(m) {
		return
	}
	for {
		p, err := e.Peer(to)
		if err != nil {
			m.Neighbour.SetRecord(nil) // of a peer that has left the table meanwhile
			e.Out.Add(Failed(m, err))
			return
		}
		p.Common().noteIn(m.Neighbour)
		if p.Send(m) {
			return
		}
	}
}

// Peer returns the peer with the given ID, and creates it if it is not in the table. It returns an error if
// the interface is closing, or if the peer is not in the table and this node cannot connect to it.
func (e *Engine[P]) Peer(id lnet.ProcessID) (P, error) {
	e.mu.RLock()
	p, known := e.peers[id]
	closing := e.closing
	e.mu.RUnlock()
	if known && !closing {
		return p, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known = e.peers[id]
	switch {
	case e.closing:
		return p, e.Error("send", id.NID, lnd.StatusRemoteDropped, ErrClosing)
	case known:
		return p, nil
	case !e.Reachable(id):
		return p, e.Error("send", id.NID, lnd.StatusRemoteError, ErrNoWay)
	}
	return e.enter(id), nil
}

// Caller returns the peer that connects from an address, and creates it if it is not in the table. The new
// connection is counted in three places. Admission counts it for the address, until CallerLeft.
// Peer.Accepting and Group count it until the driver decrements them, when it has decided on the connection.
// Caller returns ErrClosing, or a *lnd.RefusedError if the caller must be refused; in these cases it counts
// nothing.
func (e *Engine[P]) Caller(id lnet.ProcessID, from netip.Addr) (P, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, known := e.peers[id]
	if e.closing {
		return p, ErrClosing
	}
	if err := e.Admission.Enter(from, id.NID, known, time.Now()); err != nil {
		return p, err
	}
	if !known {
		p = e.enter(id)
	}
	c := p.Common()
	c.Lock()
	c.Accepting++
	c.Unlock()
	e.Group.Add(1)
	return p, nil
}

// CallerLeft ends the counting of one connection that Caller has counted for an address.
func (e *Engine[P]) CallerLeft(from netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Admission.Leave(from)
}

// enter creates a peer and adds it to the table. It restores the record and the back-off if an earlier entry
// of the peer is remembered. mu is held.
func (e *Engine[P]) enter(id lnet.ProcessID) P {
	p := e.New()
	c := p.Common()
	c.ID, c.self, c.place = id, p, e.Place
	c.Record, c.Backoff = e.Departed.Recall(id, time.Now())
	c.Record.Troubled = c.Record.Troubled || c.Backoff.Cause != nil
	c.Backoff.Min, c.Backoff.Max = e.MinPause, e.MaxPause
	e.peers[id] = p
	if !c.listens() {
		e.others++
	}
	return p
}

// Forget removes a peer from the table if nothing needs it there: it has no connection, no attempt to make
// one and no message, it is not reported as stalled, and no restart is still to be reported. Departed then
// keeps its record and back-off.
func (e *Engine[P]) Forget(p P) {
	c := p.Common()
	c.Lock()
	idle := e.idle(p)
	c.Unlock()
	if !idle { // the usual case; it needs no write lock on the table, which would delay senders
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Lock()
	defer c.Unlock()
	if !e.idle(p) {
		return
	}
	c.Gone = true
	c.removeRecord()
	delete(e.peers, c.ID)
	if !c.listens() {
		e.others--
	}
	e.Departed.Keep(c.ID, c.Record, c.Backoff)
	c.Record = Record{} // the peer's next entry in the table gets the record
}

// idle reports whether a peer can leave the table (see Forget). The peer's lock is held.
func (e *Engine[P]) idle(p P) bool {
	c := p.Common()
	return !c.Gone && !p.Busy() && c.Held == 0 && c.Waiting.Len() == 0 && !c.Stall.Stalled() && !c.Unreported()
}

// Find returns the peer with the given ID. It returns the zero P if the peer is not in the table.
func (e *Engine[P]) Find(id lnet.ProcessID) P {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.peers[id]
}

// Locked calls f with the engine's lock held, so that f may use Departed and Admission.
func (e *Engine[P]) Locked(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// Len returns the number of peers in the table.
func (e *Engine[P]) Len() int {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.peers)
}

// Of returns all peers with the given NID, which differ in their PIDs. The zero NID selects all peers.
func (e *Engine[P]) Of(nid lnet.NID) []P {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !nid.IsZero() && e.others == 0 {
		if p, known := e.peers[lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}]; known {
			return []P{p}
		}
		return nil
	}
	var found []P
	for id, p := range e.peers {
		if nid.IsZero() || id.NID == nid {
			found = append(found, p)
		}
	}
	return found
}

// CalleeFor returns the kind of p for Calls.Add. It asks the node (Upper.Vouched), so no lock may be held.
func (e *Engine[P]) CalleeFor(p P) Callee {
	c := p.Common()
	c.Lock()
	home, failed := c.Record.Home, c.Backoff.Cause != nil
	c.Unlock()
	return calleeFor(e.Upper, c.ID.NID, home, failed)
}

// Disconnect implements lnd.Interface.
func (e *Engine[P]) Disconnect(nid lnet.NID) {
	for _, p := range e.Of(nid) {
		e.disconnect(p, lnd.StatusLocalAborted, ErrDisconnect)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Departed.EndPauses(nid)
}

// disconnect closes all connections to a peer because of cause, and fails the messages that wait for a
// connection with status s and cause.
func (e *Engine[P]) disconnect(p P, s lnd.Status, cause error) {
	c := p.Common()
	c.Lock()
	if c.Gone {
		c.Unlock()
		return
	}
	e.Group.Add(1) // Stop waits until the messages have failed
	defer e.Group.Done()
	c.Gone = e.Closed()
	closeAll := p.Detach(cause)
	c.Loss = nil
	c.Backoff.Reset() // a later message connects again at once
	e.Put(c.Waiting.Cancel(), e.Error("send", c.ID.NID, s, cause))
	c.Unlock()
	closeAll()
	e.Out.Run()
	e.Forget(p)
}

// Stop closes the interface. It first calls leave, which must stop new callers. It then closes all
// connections and fails the messages that wait for one with StatusRemoteDropped. When all that Group counts
// has ended, it calls finish. Stop returns when finish has returned, or when ctx is done. A second call
// returns lnd.ErrClosed.
func (e *Engine[P]) Stop(ctx context.Context, leave, finish func()) error {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return lnd.ErrClosed
	}
	e.closing = true
	e.closed.Store(true)
	e.Group.Add(1)
	e.mu.Unlock()

	leave()
	e.cancel()
	for _, p := range e.Of(lnet.NID{}) {
		e.disconnect(p, lnd.StatusRemoteDropped, ErrClosing)
	}
	e.Group.Done()

	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Group.Wait()
		e.Locked(func() {
			for _, p := range e.peers {
				p.Common().removeRecord()
			}
			clear(e.peers)
		})
		finish()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s: close %s: goroutines are still running", e.Driver, e.Self), ctx.Err())
	}
}
