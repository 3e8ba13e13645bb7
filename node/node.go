package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/node/numa"
	"github.com/lnetd/lnetd/selection"
)

// Config says how a node shall be; the zero value is a good one.
type Config struct {
	// PID is the node's process ID; 0: lnet.PIDLustre.
	PID lnet.PID
	// Logger receives what an operator should see; nil discards.
	Logger *slog.Logger
	// Wall is the wall clock, which the interface cookie is taken from; nil:
	// time.Now.
	Wall func() time.Time
	// Parameters are those that may be changed later; nil: DefaultParameters.
	Parameters *Parameters
	// Routing makes the node a router from the start, of which others hear at
	// once.
	Routing bool
	// Buffers are the sizes of a router's pools, which SetBuffers changes.
	Buffers Buffers
	// NUMA tells where devices are; nil: nobody knows.
	NUMA *numa.Machine
	// Seed makes the choices of fault rules and the places of routes repeatable;
	// 0: they are not.
	Seed uint64
}

// Node is a node on the LNet. New makes it; of one that it has not made, nil or the
// zero value, methods return ErrNotMade, or panic with it if they return no error. All
// methods are safe for concurrent use.
type Node struct {
	pid        lnet.PID
	log        *boundedlog.Log
	start      time.Time // see now
	numa       *numa.Machine
	parameters atomic.Pointer[Parameters]

	topology atomic.Pointer[topology]
	lo       *ni
	peers    peerMap
	// rules are the policies as they were given, compiled what they come to.
	rules      atomic.Pointer[selection.Policies]
	compiled   atomic.Pointer[selection.Compiled]
	strangers  strangers
	unanswered unanswered
	absent     absent
	router     router
	table      *portals.Table
	faults     *fault.Rules
	stats      nodeStats
	second     atomic.Int64 // seconds since start, kept by the monitor
	messages   sync.Pool
	regions    regions
	uses       [lnet.Portals]portalUse
	endings    endings
	flights    flights
	waiters    sync.Pool // of *waiter

	// What waits for the monitor, and, in steps, for whoever is at it.
	wake      chan struct{} // one token while there is something to do
	resends   resendQueue
	strays    resendQueue // that wait in a router for nobody
	held      heldMessages
	steps     runQueue
	recovery  recovery
	lostHops  lostHops
	over      overLives
	infoStale atomic.Bool
	pushAll   atomic.Bool // peers shall hear of it

	discoverer discoverer
	pulse      pulse // the monitor's

	// slot is held by whoever changes the configuration.
	slot chan struct{}
	push pushTarget
	// infoMu guards the replacement of topology and compiled, and target to
	// refusalsBefore.
	infoMu sync.Mutex
	target pingTarget
	// leaving are NIs that are not in topology any more and whose driver is
	// not done with them; retired are the totals of those that are gone.
	leaving []*ni
	retired Counters
	// own are the most messages that were not routed as Counters has told.
	own Counters
	// retiredRefusals are those of NIs that are gone, refusalsBefore those before
	// the counters were last zeroed.
	retiredRefusals, refusalsBefore lnd.RefusalCounts

	phase  atomic.Uint32   // a phase; phaseNone in the zero Node
	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	ended  chan struct{} // by the monitor when it is through
	slow   slowHandlers
	closed bool // Close is through; the slot's holder's
}

// New makes a node with the interface 0@lo, which answers pings. Close ends it.
func New(c Config) (*Node, error) {
	parameters := DefaultParameters()
	if c.Parameters != nil {
		parameters = *c.Parameters
	}
	if err := parameters.check(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if c.PID == lnet.PIDAny {
		return nil, fmt.Errorf("node: pid %d: %w", c.PID, ErrInvalid)
	}
	wall := c.Wall
	if wall == nil {
		wall = time.Now
	}
	seed := c.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	n := &Node{
		pid: c.PID, log: boundedlog.New(c.Logger), start: time.Now(), numa: c.NUMA,
		faults: fault.New(seed),
		slot:   make(chan struct{}, 1), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	n.table = portals.New(portals.Config{Cookie: uint64(wall().UnixNano()), Spawn: n.slow.run})
	if n.pid == 0 {
		n.pid = lnet.PIDLustre
	}
	if n.numa == nil {
		n.numa = &numa.Machine{}
	}
	n.phase.Store(phaseOpen)
	parameters.normalize()
	n.parameters.Store(&parameters)
	n.peers.init()
	n.messages.New = n.makeMessage
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.second.Store(1) // 0 is never
	n.lo = newLoopback(n)
	t := &topology{lo: n.lo}
	t.view.Distances = n.numa.Distances()
	n.topology.Store(t.having(nil).under(&parameters))
	n.rules.Store(&selection.Policies{})
	n.discoverer.init(n, seed)
	n.router.init(c.Buffers)
	if c.Routing {
		n.startForwarding(RoutingEnabled)
	}

	n.infoMu.Lock()
	n.rebuildInfo()
	n.infoMu.Unlock()
	n.startPushTarget()
	go n.discoverer.run()
	go n.runMonitor()
	return n, nil
}

// PID is the node's process ID.
func (n *Node) PID() lnet.PID { return n.made().pid }

// configure waits for the configuration slot. The context that it returns
// ends with ctx and when the node closes; done ends it and frees the slot.
func (n *Node) configure(ctx context.Context) (context.Context, func(), error) {
	if err := n.mayWait(); err != nil {
		return nil, nil, err
	}
	select {
	case n.slot <- struct{}{}:
	case <-n.ctx.Done():
		return nil, nil, ErrClosed
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if n.isClosing() {
		<-n.slot
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil); <-n.slot }, nil
}

// Close shuts the node down. A router first goes on forwarding until its peers
// have heard of it (see DisableRouting). Then no new work is taken, waiting messages
// are given up, drivers are closed, which ends messages under way with an error. MDs
// that are left go without an event, and no device knows what was registered any
// more; see AtClose. It returns when all that is done, or, with an error, when ctx is; it may
// then be called again. ErrInHandler: a handler has called it.
func (n *Node) Close(ctx context.Context) error {
	if err := n.mayWait(); err != nil {
		return fmt.Errorf("close node: %w", err)
	}
	n.drain(ctx)
	n.phase.Store(phaseClosing)
	n.stopForwarding()
	n.cancel()
	select {
	case n.slot <- struct{}{}:
		defer func() { <-n.slot }()
	case <-ctx.Done():
		return fmt.Errorf("close node: %w", ctx.Err())
	}
	if n.closed {
		return nil
	}
	n.infoMu.Lock()
	t := n.topology.Load()
	nis := slices.Concat(t.nis, n.leaving)
	n.infoMu.Unlock()
	n.lo.closing.Store(true)
	for _, i := range nis {
		i.closing.Store(true)
	}
	n.endings.run()
	n.held.close()
	n.dropWaiting(DropClosing, func(*message) bool { return true })

	for _, i := range nis {
		i.close()
	}
	if err := n.awaitEnds(ctx, nis); err != nil {
		return err
	}
	strays := n.strays.close()
	for m := strays.pop(); m != nil; m = strays.pop() {
		m.drop(DropClosing)
	}
	waiting := n.resends.close()
	for m := waiting.pop(); m != nil; m = waiting.pop() {
		m.conclude(ErrCanceled)
	}
	n.table.Close()
	n.regions.end()
	n.flights.end()
	n.log.End()
	n.closed = true
	return nil
}

// awaitEnds waits until the drivers of NIs are closed, and the node's goroutines have
// ended.
func (n *Node) awaitEnds(ctx context.Context, nis []*ni) error {
	var errs []error
	for _, i := range nis {
		if err := i.awaitClose(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close interface %s: %w", i.NID, err))
		}
	}
	for _, ended := range []<-chan struct{}{n.ended, n.discoverer.ended, n.slow.done()} {
		select {
		case <-ended:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("a handler is busy: %w", ctx.Err()))
		}
	}
	return errors.Join(errs...)
}
