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

// Config configures a node. The zero value is usable.
type Config struct {
	// PID is the node's process ID. Zero means lnet.PIDLustre.
	PID lnet.PID
	// Logger receives log messages for operators. If it is nil, they are discarded.
	Logger *slog.Logger
	// Wall returns the wall-clock time, which becomes the interface cookie in handles. If it
	// is nil, time.Now is used.
	Wall func() time.Time
	// Parameters are the initial parameters, which can be changed later. Nil means
	// DefaultParameters.
	Parameters *Parameters
	// Routing makes the node a router from the start. It announces this immediately, unlike
	// after Admin.EnableRouting.
	Routing bool
	// Buffers are the initial numbers of router buffers. Admin.SetBuffers changes them.
	Buffers Buffers
	// NUMA maps devices and memory to CPTs. If it is nil, the CPT of everything is unknown.
	NUMA *numa.Machine
	// Seed makes the random choices of fault rules and of the positions of routes repeatable.
	// If it is 0, they differ from run to run.
	Seed uint64
}

// Node is a node of an LNet network. New or Start creates it. Methods of a Node that is
// nil or the zero value return ErrNotMade. If they return no error, they do nothing and
// return zero values. All methods are safe for concurrent use.
type Node struct {
	pid        lnet.PID
	log        *boundedlog.Log
	start      time.Time // see now
	numa       *numa.Machine
	parameters atomic.Pointer[Parameters]

	topology atomic.Pointer[topology]
	lo       *ni
	peers    peerMap
	// rules are the policies as they were configured. compiled are the same policies in the
	// form that is applied.
	rules      atomic.Pointer[selection.Policies]
	compiled   atomic.Pointer[selection.Compiled]
	strangers  strangers
	unanswered unanswered
	absent     absent
	router     router
	table      *portals.Table
	faults     *fault.Rules
	stats      nodeStats
	// removedStats are the totals of peer NIs that were removed. resets and moves are those of
	// PeerNIsInfo.
	removedStats peerStats
	resets       atomic.Uint64
	moves        atomic.Uint64
	second       atomic.Int64 // seconds since the node was created, updated by the monitor
	messages     sync.Pool
	regions      regions
	uses         [lnet.Portals]portalUse
	endings      endings
	flights      flights
	captures     captures
	waiters      sync.Pool // of *waiter

	// Work for the monitor. Only steps is processed by the goroutine that adds to it, if no
	// other one does.
	wake              chan struct{} // has one token while there is work
	resends           resendQueue
	strays            resendQueue // messages in the router that wait for a credit of a removed peer NI
	held              heldMessages
	steps             runQueue
	recovery          recovery
	lostNeighbours    lostNeighbours
	endedIncarnations endedIncarnations
	infoStale         atomic.Bool
	pushAll           atomic.Bool // the current ping info is to be pushed to all peers

	discoverer discoverer
	pulse      loopProgress // of the monitor

	// slot is the configuration slot, a lock for changes of the configuration: full while
	// held. Unlike a mutex, waiting for it can be canceled by a context.
	slot chan struct{}
	push pushTarget
	// infoMu guards the replacement of topology and compiled, and the fields from target to
	// refusalsBefore.
	infoMu sync.Mutex
	target pingTarget
	// leaving are NIs that were removed from topology and that their drivers are still
	// closing. retired are the totals of NIs that are closed.
	leaving []*ni
	retired Counters
	// own holds the highest numbers of messages of this node itself that Counters has
	// returned.
	own Counters
	// retiredRefusals counts the refusals of NIs that are gone. refusalsBefore counts all
	// refusals up to the last reset of the counters.
	retiredRefusals, refusalsBefore lnd.RefusalCounts

	phase  atomic.Uint32   // a phase; phaseNone in the zero Node
	ctx    context.Context // canceled when Close begins
	cancel context.CancelFunc
	ended  chan struct{} // closed when the monitor has ended
	slow   slowCalls
	closed bool // Close has succeeded; guarded by slot
}

// New creates a node whose only interface is 0@lo. It answers pings. Node.AddNI adds
// interfaces, and Node.Close shuts the node down.
func New(c Config) (*Node, error) {
	parameters := DefaultParameters()
	if c.Parameters != nil {
		parameters = *c.Parameters
	}
	if err := parameters.check(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if c.PID == lnet.PIDAny {
		return nil, fmt.Errorf("node: pid %d stands for any PID: %w", c.PID, ErrInvalid)
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
	n.second.Store(1) // 0 means never
	n.lo = newLoopback(n)
	t := &topology{lo: n.lo}
	t.view.Distances = n.numa.Distances()
	n.topology.Store(t.withNIs(nil).withParameters(&parameters))
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

// PID returns the node's process ID.
func (n *Node) PID() lnet.PID {
	if !n.isMade() {
		return 0
	}
	return n.pid
}

// configure acquires the configuration slot, and waits for it if needed. The returned
// context ends when ctx ends or the node closes. The returned function ends that context
// and releases the slot. configure returns ErrInHandler, ErrClosed or ctx's error.
func (n *Node) configure(ctx context.Context) (context.Context, func(), error) {
	if err := n.checkMayBlock(); err != nil {
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

// Close shuts the node down. A router first continues to forward until its peers are
// notified (see DisableRouting). Then the node accepts no more requests and calls the
// functions registered with AtClose. Waiting messages are dropped, and the drivers are
// closed, which ends messages under way with an error. The remaining MDs end without an
// event, and registered memory is deregistered.
//
// Close returns nil when all of this is done. If ctx ends first, it returns an error, and
// may be called again to wait for the rest. It returns ErrInHandler if a handler calls it.
func (n *Node) Close(ctx context.Context) error {
	if err := n.checkMayBlock(); err != nil {
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
		m.endSend(ErrCanceled)
	}
	n.table.Close()
	n.regions.end()
	n.flights.end()
	n.log.End()
	n.closed = true
	return nil
}

// awaitEnds waits until the drivers of nis are closed and the node's goroutines have
// ended. It returns the errors of the drivers, or ctx's error if ctx is done first.
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
			errs = append(errs, fmt.Errorf("a handler has not returned: %w", ctx.Err()))
		}
	}
	return errors.Join(errs...)
}
