package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

// discoverer runs the discovery machine in its own goroutine. Other goroutines pass events
// to it with post and call. It leaves the sending of its pings and pushes to the monitor.
// It never sends messages itself, and does not run handlers while the node is open.
type discoverer struct {
	node  *Node
	wake  chan struct{} // has one token while inbox is not empty
	ended chan struct{}

	mu     sync.Mutex // guards inbox and closed
	inbox  []event
	closed bool // no more events are accepted

	// Only the discoverer's goroutine uses the fields below.
	machine  *discovery.Machine
	peers    map[discovery.PeerID]*peer
	parked   map[discovery.Key]*message
	waiters  map[discovery.Key]chan<- discovery.Wake
	lastKey  discovery.Key
	policies *selection.Policies
	rng      *rand.Rand
	moved    bool // NIDs of gateways were added or removed, or have a new owner
	// nextCheck is when to search for gateways whose check is due, in the node's time.
	nextCheck time.Duration

	exchanges exchanges
	pulse     loopProgress
}

// event is an input for the discovery machine. Exactly one of park, isNew and do is set.
type event struct {
	park  *message // a message that waits until the peer with nid is known
	isNew bool     // a peer NI with nid was created
	nid   lnet.NID
	do    func(m *discovery.Machine, now time.Duration)
	// call is set if the caller waits until do has returned.
	call *call
}

// call is the state of a caller that waits for an event.
type call struct {
	state atomic.Uint32
	done  chan struct{} // closed when do has returned and its actions are done
}

// States of a call.
const (
	callWaiting = iota
	callRunning
	callWithdrawn
)

func (d *discoverer) init(n *Node, seed uint64) {
	d.node = n
	d.wake, d.ended = make(chan struct{}, 1), make(chan struct{})
	d.peers = map[discovery.PeerID]*peer{}
	d.parked = map[discovery.Key]*message{}
	d.waiters = map[discovery.Key]chan<- discovery.Wake{}
	d.policies = &selection.Policies{}
	d.rng = rand.New(rand.NewPCG(seed, 0))
	d.exchanges.init()
	t := n.topology.Load()
	d.machine = discovery.New(discovery.Config{Local: t.local, Full: d.full})
}

// put appends an event to the inbox. It returns false if the node is closed.
func (d *discoverer) put(e event) bool {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return false
	}
	d.inbox = append(d.inbox, e)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return true
}

func (d *discoverer) post(f func(m *discovery.Machine, now time.Duration)) bool {
	return d.put(event{do: f})
}

// announce makes discovery create a peer for nid, the NID of a new peer NI, if it has
// none.
func (d *discoverer) announce(nid lnet.NID) { d.put(event{isNew: true, nid: nid}) }

// park passes m to the discoverer, which keeps it until the peer with nid is known and the
// monitor sends m. If the node is closed, m ends with ErrClosed.
func (d *discoverer) park(m *message, nid lnet.NID) {
	if !d.put(event{park: m, nid: nid}) {
		m.schedule(stepAttempted, ErrClosed)
	}
}

// discoverLater starts discovery of p's peer in the background; no message waits for it.
func (d *discoverer) discoverLater(p *peerNI) {
	if v := p.view(); v != nil && v.State.Has(discovery.Discovering) {
		return
	}
	d.post(func(m *discovery.Machine, now time.Duration) { m.StartRound(now, p.NID) })
}

// retryRounds makes discovery retry failed rounds with the peer of p, after a message has
// arrived from p. If back is true, p counted as down before, and the retry does not wait
// for its timer. If back is false, this happens only if discovery has given up retrying. p
// may be nil.
func (d *discoverer) retryRounds(p *peerNI, back bool) {
	if p == nil {
		return
	}
	if v := p.view(); v != nil && (v.RetriesEnded || back && v.State.Has(discovery.Rediscover)) {
		d.post(func(m *discovery.Machine, now time.Duration) { m.NoteAlive(now, p.NID) })
	}
}

// call runs f in the discoverer's goroutine. It returns nil when f has returned and all
// events that were posted before it have been processed. If it returns an error, which is
// ErrClosed or ctx's, f was not run and will not be.
func (d *discoverer) call(ctx context.Context, f func(m *discovery.Machine)) error {
	c := &call{done: make(chan struct{})}
	if !d.put(event{do: func(m *discovery.Machine, _ time.Duration) { f(m) }, call: c}) {
		return ErrClosed
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		if c.state.CompareAndSwap(callWaiting, callWithdrawn) {
			return context.Cause(ctx)
		}
		<-c.done
		return nil
	}
}

// callErr is like call, but returns f's error if f was run.
func (d *discoverer) callErr(ctx context.Context, f func(m *discovery.Machine, now time.Duration) error) error {
	var err error
	failed := d.call(ctx, func(m *discovery.Machine) { err = f(m, d.node.machineNow()) })
	if failed != nil {
		return failed
	}
	return err
}

// machineNow returns the time that is passed to the discovery machine: the time since the
// node was created.
func (n *Node) machineNow() time.Duration { return time.Duration(n.now()) }

func (d *discoverer) takeEvents() []event {
	d.mu.Lock()
	defer d.mu.Unlock()
	events := d.inbox
	d.inbox = nil
	return events
}

// stepsAtOnce limits how many steps the machine takes before the discoverer processes new
// events.
const stepsAtOnce = 16

// run is the body of the discoverer's goroutine.
func (d *discoverer) run() {
	defer close(d.ended)
	n := d.node
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n.ctx.Err() == nil {
		for _, e := range d.takeEvents() {
			d.pulse.step()
			d.handleEvent(e)
		}
		d.pulse.step()
		for k := 0; k < stepsAtOnce && d.machine.HasWork(); k++ {
			d.machine.Step(n.machineNow())
			d.act()
		}
		d.evict()
		if d.machine.HasWork() {
			continue
		}
		pause := min(d.checkRouters(), d.nextEviction(), d.expireUnanswered())
		if due, ok := d.machine.Due(); ok {
			pause = min(pause, due-n.machineNow())
		}
		d.act()
		if d.machine.HasWork() || pause <= 0 {
			d.machine.Step(n.machineNow())
			d.act()
			continue
		}
		timer.Reset(pause)
		d.pulse.wait()
		select {
		case <-d.wake:
		case <-timer.C:
		case <-n.ctx.Done():
		}
		d.pulse.resume()
	}
	d.stop()
	d.pulse.wait()
}

// stop ends everything that waits for discovery: parked messages and queries end with an
// error, and further events are rejected.
func (d *discoverer) stop() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	for _, e := range d.takeEvents() {
		d.handleEvent(e)
	}
	now := d.node.machineNow()
	d.machine.Stop(now)
	for d.act(); d.machine.HasWork(); d.act() {
		d.machine.Step(now)
	}
}

func (d *discoverer) handleEvent(e event) {
	if e.call != nil && !e.call.state.CompareAndSwap(callWaiting, callRunning) {
		return
	}
	now := d.node.machineNow()
	switch {
	case e.park != nil:
		d.lastKey++
		d.parked[d.lastKey] = e.park
		d.machine.Park(now, e.nid, d.lastKey)
	case e.isNew:
		d.machine.FindOrCreate(now, e.nid)
	default:
		e.do(d.machine, now)
	}
	d.act()
	if e.call != nil {
		close(e.call.done)
	}
}

// act carries out the actions that the machine has requested, and those that it requests
// meanwhile.
func (d *discoverer) act() {
	for {
		actions := d.machine.Actions()
		if len(actions) == 0 && !d.moved {
			return
		}
		for _, a := range actions {
			d.execute(a)
		}
		if d.moved {
			d.moved = false
			d.rebindRoutes()
		}
	}
}

func (d *discoverer) execute(a discovery.Action) {
	n := d.node
	switch a := a.(type) {
	case discovery.SendPing:
		d.exchanges.begin(n, &exchange{node: n, id: a.ID, to: a.To, net: a.Net, size: a.Size})
	case discovery.SendPush:
		d.exchanges.begin(n, &exchange{node: n, id: a.ID, to: a.To, source: a.Source, push: true})
	case discovery.Cancel:
		d.exchanges.cancel(n, a.ID)
	case discovery.Attach:
		d.attach(a.NID, a.Peer)
	case discovery.Detach:
		if p := n.peers.find(a.NID); p != nil {
			n.removePeerNI(p)
			n.resumeStrays(p)
		}
		d.noteMoved(a.NID)
	case discovery.SetPrimary:
		n.log.Debug("primary NID of a peer changed", "old", a.Old, "new", a.New)
		d.noteMoved(a.New)
	case discovery.ViewChanged:
		d.publish(d.peers[a.View.ID], a.View)
	case discovery.Gone:
		if q := d.peers[a.View.ID]; q != nil {
			q.view.Store(a.View)
			delete(d.peers, a.View.ID)
			n.notePeerRemoved(a.View)
		}
	case discovery.MarkStatus:
		n.markStatus(a.NID, a.Status == lnet.StatusUp)
	case discovery.ForgetPreferred:
		// When a peer becomes multi-rail, publishing its data has removed the preferred NIs
		// already.
	case discovery.Release:
		for _, key := range a.Keys {
			m := d.parked[key]
			delete(d.parked, key)
			m.queueForMonitor(parkError(a.Err))
		}
	case discovery.Wake:
		if w := d.waiters[a.Waiter]; w != nil {
			delete(d.waiters, a.Waiter)
			w <- a
		}
	case discovery.EnlargePush:
		n.push.enlarge(n, a.Size)
	case discovery.GatewayInfo:
		d.gatewayInfo(d.peers[a.Peer], a.Info)
	case discovery.GatewayChecked:
		d.gatewayChecked(d.peers[a.Peer], a.Err)
	case discovery.MoveRoutes:
		d.moveRoutes(a.From, a.To)
	case discovery.Log:
		d.log(a)
	default:
		panic(fmt.Sprintf("node: action %T", a))
	}
}

// log writes the log line that the machine has requested.
func (d *discoverer) log(a discovery.Log) {
	l := boundedlog.Line{Level: slog.LevelInfo, Text: a.Text, Of: boundedlog.AboutPeer(a.Peer)}
	if a.Warn {
		l.Level = slog.LevelWarn
	}
	var attrs [3]slog.Attr
	list := attrs[:0]
	if len(a.NIDs) > 0 {
		list = append(list, slog.Any("nids", a.NIDs))
	}
	if a.Others > 0 {
		list = append(list, slog.Int("not_named", a.Others))
	}
	if a.Err != nil {
		list = append(list, slog.Any("err", a.Err))
	}
	d.node.log.Report(l, list...)
}

// parkError converts err, with which discovery has ended a wait, to the error for a
// message or a caller.
func parkError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, discovery.ErrCanceled), errors.Is(err, discovery.ErrClosed):
		return ErrCanceled
	case errors.Is(err, discovery.ErrTimedOut):
		return fmt.Errorf("discovery: %w: %w", err, ErrTimedOut)
	}
	return fmt.Errorf("discovery: %w", err)
}

// attach records that nid belongs to the peer with the given ID, and creates its peer NI
// if needed.
func (d *discoverer) attach(nid lnet.NID, id discovery.PeerID) {
	q := d.peers[id]
	if q == nil {
		q = &peer{}
		d.peers[id] = q
	}
	if old := d.node.peerFor(nid).peer.Swap(q); old != nil && old != q {
		d.node.moves.Add(1)
	}
	d.noteMoved(nid)
}

// noteMoved records that nid was added to a peer, removed from its peer, or made primary.
// If a route leads through nid, act will rebind the routes.
func (d *discoverer) noteMoved(nid lnet.NID) {
	d.moved = d.moved || d.node.topology.Load().view.Routing.Uses(nid)
}

// publish makes a new view of a peer visible to other goroutines.
func (d *discoverer) publish(q *peer, v *discovery.View) {
	if q == nil { // the peer has no NIDs
		return
	}
	old := q.view.Load()
	q.view.Store(v)
	if q.selection != nil && old != nil && sameNIDs(old.NIDs, v.NIDs) && q.selection.Identity == q.identify(v) {
		return
	}
	d.node.notePeer(old, v)
	d.publishPeer(q, v)
}

// sameNIDs reports whether a and b are the same slice. Successive views of a peer share
// their slice of NIDs as long as the NIDs do not change.
func sameNIDs(a, b []lnet.NID) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (q *peer) identify(v *discovery.View) selection.Identity {
	return selection.Identity{
		Primary:        v.Primary,
		MultiRail:      v.State.Has(discovery.MultiRail),
		NoDiscovery:    v.State.Has(discovery.NoDiscovery),
		RoutingEnabled: v.State.Has(discovery.RouterEnabled),
		Removed:        q.removed,
	}
}

// publishPeer updates package selection's data about a peer, including the effect of
// policies.
func (d *discoverer) publishPeer(q *peer, v *discovery.View) {
	n := d.node
	nis := make([]*selection.PeerNI, 0, len(v.NIDs))
	for _, nid := range v.NIDs {
		nis = append(nis, &n.peerFor(nid).PeerNI)
	}
	q.selection = selection.NewPeer(q.selection, q.identify(v), nis)
	if c := n.compiled.Load(); c != nil {
		c.ApplyPeer(q.selection)
	}
	q.selection.Publish()
}

// compile applies the policies to all peers, and to next, a topology that is about to be
// published.
func (d *discoverer) compile(next *topology) {
	n := d.node
	c := d.policies.Compile(next.view.Local, next.view.Routing)
	c.ApplyLocal(next.view.Local)
	if c.SamePeers(n.compiled.Swap(c)) {
		return
	}
	for _, q := range d.peers {
		if q.selection != nil {
			c.ApplyPeer(q.selection)
		}
	}
}
