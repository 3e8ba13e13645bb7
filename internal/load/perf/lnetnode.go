package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/transport/inproc"
)

// The MDs that the passive node offers: portal, match bits and size. setupTime is the time limit to
// start or close a node.
const (
	portal      = 20
	putBits     = 1
	getBits     = 2
	offeredSize = 1 << 20
	setupTime   = time.Minute
)

// lnetNode is a node with one NI on a loopback address.
type lnetNode struct {
	node        *node.Node
	closeDriver func() error
	tmSite
}

func startNode(ctx context.Context, c *Config, address netip.Addr, peerCredits int) (*lnetNode, error) {
	d, closer, err := c.openDriver(peerCredits)
	if err != nil {
		return nil, err
	}
	n, err := node.New(node.Config{Logger: c.Logger})
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	net := c.net()
	info, err := n.AddNI(ctx, d, lnd.Config{Net: net, NID: lnet.NIDFromIP(net, address)})
	if err != nil {
		return nil, errors.Join(err, n.Close(ctx), closer())
	}
	return &lnetNode{closeDriver: closer, node: n, tmSite: tmSite{core: inproc.New(n), nid: info.NID}}, nil
}

// openDriver creates the driver of a node. The caller must call closer when the node is closed.
func (c *Config) openDriver(peerCredits int) (_ lnd.Driver, closer func() error, err error) {
	if c.RDMA {
		return tmhost.OpenRDMA(tmhost.Config{Port: c.Port, PeerCredits: peerCredits, Logger: c.Logger})
	}
	driver := socklnd.UnprivilegedConfig(c.Port)
	driver.Tunables.PeerCredits = peerCredits
	driver.Logger = c.Logger
	for _, s := range c.Settings {
		s.apply(&driver)
	}
	d, err := socklnd.New(driver)
	if err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

func (o *lnetNode) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	return errors.Join(o.closeMachines(ctx), o.node.Close(ctx), o.closeDriver())
}

// attach posts an MD for PUTs and an MD for GETs.
func (o *lnetNode) attach() error {
	buf := writtenMemory(offeredSize)
	for bits, option := range map[uint64]portals.MDOptions{putBits: portals.OpPut, getBits: portals.OpGet} {
		_, err := o.node.Attach(
			portals.Entry{Portal: portal, MatchBits: bits},
			portals.MD{Bytes: buf, Threshold: portals.Unlimited, Options: option | portals.ManageRemote | portals.Truncate})
		if err != nil {
			return err
		}
	}
	return nil
}

// exchange describes n transfers of one kind: PUTs of in bytes, or GETs of out bytes if out is not 0. At
// most window of them are in flight.
type exchange struct {
	n, in, out, window int
	blocking           bool // the caller waits for each transfer; otherwise the handler starts the next one
}

// run makes the transfers of x with a peer, and returns the time taken. It records a lap at the end of each
// transfer, if only one is in flight.
func (o *lnetNode) run(ctx context.Context, to lnet.NID, x exchange, l *laps) (time.Duration, error) {
	if x.blocking {
		return o.runBlocking(ctx, to, x, l)
	}
	r := &run{o: o, to: lnet.ProcessID{NID: to, PID: lnet.PIDLustre}, x: x, laps: l, done: make(chan struct{})}
	handles := make([]lnet.Handle, x.window)
	for k := range handles {
		h, err := o.bind(x, r)
		if err != nil {
			return 0, err
		}
		handles[k] = h
	}
	l.start()
	start := time.Now()
	for _, h := range handles {
		r.next(h)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(start)
	for _, h := range handles {
		// An MD whose last SEND event has not come yet is unlinked after that event.
		if err := o.node.Unlink(h); err != nil {
			return 0, err
		}
	}
	return took, r.failure()
}

func (o *lnetNode) bind(x exchange, h portals.Handler) (lnet.Handle, error) {
	return o.node.Bind(portals.MD{
		Bytes:     writtenMemory(max(x.in, x.out)),
		Threshold: portals.Unlimited,
		Handler:   h,
	})
}

// start starts one transfer with the MD h.
func (x *exchange) start(n *node.Node, h lnet.Handle, to lnet.ProcessID) error {
	if x.out > 0 {
		return n.Get(h, to, node.GetOptions{Portal: portal, MatchBits: getBits})
	}
	return n.Put(h, to, node.PutOptions{Portal: portal, MatchBits: putBits, Ack: true})
}

// run is the state of an exchange in progress. Its handler starts a transfer whenever one has ended.
type run struct {
	o    *lnetNode
	to   lnet.ProcessID
	x    exchange
	laps *laps
	done chan struct{}

	begun, ended atomic.Int64
	mu           sync.Mutex // guards err
	err          error
}

func (r *run) next(h lnet.Handle) {
	if r.begun.Add(1) > int64(r.x.n) {
		return
	}
	if err := r.x.start(r.o.node, h, r.to); err != nil {
		r.fail(err)
	}
}

// HandleEvent implements portals.Handler.
func (r *run) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		r.fail(fmt.Errorf("%s: %w", e.Type, e.Err))
	case e.Type == portals.EventAck || e.Type == portals.EventReply:
		r.laps.add()
		if r.ended.Add(1) == int64(r.x.n) {
			close(r.done)
			return
		}
		r.next(e.MD)
	}
}

// fail ends the run with an error. It has no effect when all transfers have ended, because a SEND event
// that comes later has an error if its MD was unlinked.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended.Swap(int64(r.x.n)) < int64(r.x.n) {
		r.err = err
		close(r.done)
	}
}

func (r *run) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// runBlocking makes the transfers of x one after the other. The caller's goroutine waits for each.
func (o *lnetNode) runBlocking(ctx context.Context, to lnet.NID, x exchange, l *laps) (time.Duration, error) {
	q := node.NewEventQueue(node.EventsOf(portals.EventAck, portals.EventReply))
	h, err := o.bind(x, q)
	if err != nil {
		return 0, err
	}
	peer := lnet.ProcessID{NID: to, PID: lnet.PIDLustre}
	var e portals.Event
	l.start()
	start := time.Now()
	for range x.n {
		if err := x.start(o.node, h, peer); err != nil {
			return 0, err
		}
		if err := q.Next(ctx, &e); err != nil {
			return 0, err
		}
		if e.Err != nil {
			return 0, e.Err
		}
		l.add()
	}
	took := time.Since(start)
	return took, o.node.Unlink(h)
}
