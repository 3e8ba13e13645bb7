package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Defaults of Config (lnet-core 13).
const (
	DefaultInterfacesMax      = lnet.InterfacesMax
	DefaultTransactionTimeout = 150 * time.Second
	DefaultRetryCount         = 2
	DefaultResponseTracking   = TrackAll
)

// ResponseTracking says which requests are watched for a missing response,
// unless their MD says otherwise (lnet-core 6.4).
type ResponseTracking uint8

// The values are those of lnet_response_tracking.
const (
	TrackNone ResponseTracking = iota
	TrackGets
	TrackPuts
	TrackAll
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
	// InterfacesMax bounds NIs and the entries of ping info taken, 0@lo
	// included; less than 16: 4096.
	InterfacesMax int
	// DisableDiscovery clears FeatDiscovery in ping info.
	DisableDiscovery bool
	// TransactionTimeout is how long a response may take; 0: 150 s.
	TransactionTimeout time.Duration
	// RetryCount is how often a message may be sent again; nil: 2.
	RetryCount *int
	// ResponseTracking says which requests are watched; nil: all.
	ResponseTracking *ResponseTracking
}

// Node is a node on the LNet. All methods are safe for concurrent use.
type Node struct {
	pid           lnet.PID
	log           *slog.Logger
	cookie        uint64    // interface cookie (lnet-core 1.4)
	start         time.Time // see now
	interfacesMax int
	discovery     bool
	timeout       time.Duration
	retries       int
	tracking      ResponseTracking

	topology atomic.Pointer[topology]
	lo       *ni
	objects  atomic.Uint64 // MDs made so far
	handles  handleTable
	portals  portalTable
	stats    nodeStats
	second   atomic.Int64 // seconds since start, kept by the monitor

	messages, mds, events sync.Pool

	// slot is held by whoever changes the configuration.
	slot chan struct{}
	// infoMu guards the replacement of topology, the ping target and retired.
	infoMu sync.Mutex
	target pingTarget
	push   pushTarget
	// retired are the totals of NIs that are gone.
	retired Counters

	closing atomic.Bool
	ctx     context.Context // ends when Close begins
	cancel  context.CancelFunc
	monitor sync.WaitGroup
	closed  bool // Close is through; the slot's holder's
}

// New makes a node with the interface 0@lo, which answers pings. Close ends it.
func New(c Config) (*Node, error) {
	n := &Node{
		pid: c.PID, log: c.Logger, start: time.Now(), interfacesMax: c.InterfacesMax,
		discovery: !c.DisableDiscovery, timeout: c.TransactionTimeout,
		retries: DefaultRetryCount, tracking: DefaultResponseTracking,
		slot: make(chan struct{}, 1),
	}
	if n.pid == 0 {
		n.pid = lnet.PIDLustre
	}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	if n.interfacesMax < lnet.InterfacesMin { // as kernels do
		n.interfacesMax = DefaultInterfacesMax
	}
	if n.timeout == 0 {
		n.timeout = DefaultTransactionTimeout
	}
	if c.RetryCount != nil {
		n.retries = *c.RetryCount
	}
	if c.ResponseTracking != nil {
		n.tracking = *c.ResponseTracking
	}
	switch {
	case n.pid == lnet.PIDAny:
		return nil, fmt.Errorf("node: pid %d: %w", n.pid, ErrInvalid)
	case n.retries < 0:
		return nil, fmt.Errorf("node: retry count %d: %w", n.retries, ErrInvalid)
	case n.timeout <= time.Duration(n.retries)*time.Second:
		return nil, fmt.Errorf("node: transaction timeout %v: not more than the retry count %d in seconds: %w",
			n.timeout, n.retries, ErrInvalid)
	case n.tracking > TrackAll:
		return nil, fmt.Errorf("node: response tracking %d: not within 0 to 3: %w", n.tracking, ErrInvalid)
	}
	wall := c.Wall
	if wall == nil {
		wall = time.Now
	}
	n.cookie = uint64(wall().UnixNano())

	n.messages.New = func() any {
		m := &message{node: n}
		m.tx.Done = m
		return m
	}
	n.mds.New = func() any { return new(md) }
	n.events.New = func() any { return new(queuedEvent) }
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.topology.Store(&topology{})
	n.lo = newLoopback(n)

	n.infoMu.Lock()
	n.rebuildInfo()
	n.infoMu.Unlock()
	n.startPushTarget()
	n.monitor.Go(n.runMonitor)
	return n, nil
}

// now is the time since the node's start in ns, never 0.
func (n *Node) now() int64 { return int64(time.Since(n.start)) + 1 }

// lifetime is how long after its commit a message may leave, by the NI's LND
// timeout (lnet-core 2.3).
func (n *Node) lifetime(lndTimeout time.Duration) int64 {
	if lndTimeout > 0 {
		return int64(lndTimeout)*int64(n.retries+1) + int64(time.Second)
	}
	return int64(n.timeout)
}

// primary is the primary NID of the node that a NID belongs to. Nothing is
// known of other nodes' NIDs here, so that each NID is its own.
func (n *Node) primary(nid lnet.NID) lnet.NID { return nid }

// PID is the node's process ID.
func (n *Node) PID() lnet.PID { return n.pid }

// configure waits for the configuration slot. The context that it returns
// ends with ctx and when the node closes; done ends it and frees the slot.
func (n *Node) configure(ctx context.Context) (context.Context, func(), error) {
	select {
	case n.slot <- struct{}{}:
	case <-n.ctx.Done():
		return nil, nil, ErrClosed
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if n.closing.Load() {
		<-n.slot
		return nil, nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil); <-n.slot }, nil
}

// Close shuts the node down: no new work is taken, waiting messages are given
// up, drivers are closed, which ends messages under way with an error. MDs
// that are left go without an event. It returns when all that is done, or,
// with an error, when ctx is; it may then be called again. It must not be
// called from a handler.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Store(true)
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
	n.monitor.Wait()
	n.dropDelayed(nil)

	nis := n.topology.Load().nis
	errs := make([]error, len(nis))
	var closers sync.WaitGroup
	for k, i := range nis {
		i.closing.Store(true)
		closers.Go(func() {
			if err := i.iface.Close(ctx); err != nil {
				errs[k] = fmt.Errorf("close interface %s: %w", i.nid, err)
			}
		})
	}
	closers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	n.handles.close()
	n.closed = true
	return nil
}
