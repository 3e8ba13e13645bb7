package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnet"
)

// RoutingState is whether a node forwards messages, and says so (lnet-core 9.1).
type RoutingState uint8

// The values are those that commands show. In all but RoutingDisabled the node
// forwards; only in RoutingEnabled it tells others that it does.
const (
	RoutingDisabled RoutingState = iota
	RoutingEnabled
	RoutingStopping
	RoutingStarting
)

// PoolInfo describes a pool of router buffers.
type PoolInfo struct {
	// Pages of 4096 bytes are the size of a buffer.
	Pages int
	// Buffers is how many there may be, Credits how many are free, less than 0 by
	// the number of messages that wait, MinCredits the lowest that ever was.
	Buffers, Credits, MinCredits int
}

// RoutingInfo describes the router role.
type RoutingInfo struct {
	State RoutingState
	// Ever says that the node has forwarded since it began, or since StopRouting.
	Ever bool
	// Pools are those of tiny, small and large buffers.
	Pools [poolKinds]PoolInfo
}

// How a router stops (decisions 23).
const (
	drainMost  = 10 * time.Second // that it goes on forwarding at most
	drainLeast = 2 * time.Second  // that it does so at least: peers must hear of it
)

// router is the node's router role.
type router struct {
	state atomic.Uint32 // RoutingState
	pools [poolKinds]pool

	ever  atomic.Bool
	mu    sync.Mutex // guards changes of state, and the rest
	sizes Buffers
	// until is when starting ends, or stopping at the latest; since is when
	// stopping began; seconds of the node's clock.
	since, until int64
}

func (r *router) init(b Buffers) {
	r.sizes = b
	for k := range r.pools {
		r.pools[k].init(poolSizes[k].pages)
	}
}

// forwards says that the node forwards messages.
func (r *router) forwards() bool { return RoutingState(r.state.Load()) != RoutingDisabled }

// announced says that it tells others that it does.
func (r *router) announced() bool { return RoutingState(r.state.Load()) == RoutingEnabled }

// EnableRouting makes the node a router. It forwards at once, and tells others
// so after RouterCheckInterval and RouterPingTimeout, when it knows which of its
// NIs are alive. ErrBusy while it is stopping; ErrClosed. It does not wait.
func (n *Node) EnableRouting() error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(false)
	n.forwardGranted(&ready)
	return err
}

// ResumeRouting is EnableRouting, but a node that is stopping comes back from it: it starts
// anew, and what waits to be forwarded goes on.
func (n *Node) ResumeRouting() error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(true)
	n.forwardGranted(&ready)
	return err
}

// enableRouting returns the messages that go on. Resume has a router that is stopping start.
func (n *Node) enableRouting(resume bool) (ready messageQueue, err error) {
	r := &n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	switch RoutingState(r.state.Load()) {
	case RoutingStopping:
		if !resume {
			return ready, fmt.Errorf("enable routing: still stopping: %w", ErrBusy)
		}
	case RoutingDisabled:
	default:
		return ready, nil
	}
	if n.isClosing() {
		return ready, fmt.Errorf("enable routing: %w", ErrClosed)
	}
	r.until = n.second.Load() + n.parameters.Load().silence()
	n.log.Info("routing starts")
	return n.startForwarding(RoutingStarting), nil
}

// startForwarding makes the pools and returns who waits for them still, from an
// earlier time. router.mu is held, or nobody else is there.
func (n *Node) startForwarding(s RoutingState) (ready messageQueue) {
	r := &n.router
	r.ever.Store(true)
	ready = r.resize(r.sizes.numbers())
	for _, i := range n.topology.Load().nis {
		i.lastPing.Store(n.second.Load()) // all count as alive for now
	}
	r.state.Store(uint32(s))
	return ready
}

// resize sets how many buffers there are and returns the messages that go on.
func (r *router) resize(numbers [poolKinds]int) (ready messageQueue) {
	for k := range r.pools {
		more := r.pools[k].resize(numbers[k])
		ready.append(&more)
	}
	return ready
}

// DisableRouting ends the router role: peers are told at once, and what they
// still send is forwarded for a while, at most 10 s; then it is dropped. It does
// not wait for that.
func (n *Node) DisableRouting() {
	r := &n.made().router
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := RoutingState(r.state.Load()); s == RoutingDisabled || s == RoutingStopping {
		return
	}
	r.state.Store(uint32(RoutingStopping))
	r.since = n.second.Load()
	r.until = r.since + int64(drainMost/time.Second)
	n.log.Info("routing stops")
	n.restate()
}

// StopRouting ends the router role at once: what waits to be forwarded is dropped, and
// the node is one that never forwarded. It can be enabled again.
func (n *Node) StopRouting() {
	n.DisableRouting()
	n.stopForwarding()
	n.router.ever.Store(false)
}

// SetBuffers sets the sizes of the pools; a number less than 0 leaves one as it
// is, 0 stands for the default. They hold when the node forwards.
func (n *Node) SetBuffers(b Buffers) {
	ready := n.made().setBuffers(b)
	n.forwardGranted(&ready)
}

func (n *Node) setBuffers(b Buffers) (ready messageQueue) {
	r := &n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range []struct {
		size *int
		to   int
	}{{&r.sizes.Tiny, b.Tiny}, {&r.sizes.Small, b.Small}, {&r.sizes.Large, b.Large}} {
		if s.to >= 0 {
			*s.size = s.to
		}
	}
	numbers := r.sizes.numbers()
	for k, s := range poolSizes {
		if numbers[k] < s.least {
			n.log.Warn("few router buffers", "pages", s.pages, "buffers", numbers[k], "recommended", s.least)
		}
	}
	if r.forwards() {
		ready = r.resize(numbers)
	}
	return ready
}

// Buffers are the sizes of the pools that hold, or will, when the node forwards.
func (n *Node) Buffers() Buffers {
	n.made().router.mu.Lock()
	defer n.router.mu.Unlock()
	return n.router.sizes.Resolved()
}

// Routing describes the router role.
func (n *Node) Routing() RoutingInfo {
	r := &n.made().router
	r.mu.Lock()
	defer r.mu.Unlock()
	info := RoutingInfo{State: RoutingState(r.state.Load()), Ever: r.ever.Load()}
	for k := range r.pools {
		c := r.pools[k].credits.info()
		info.Pools[k] = PoolInfo{
			Pages: r.pools[k].pages, Buffers: c.Max, Credits: c.Available, MinCredits: c.Min,
		}
	}
	return info
}

// runRouter moves the state on and looks which NIs are alive. The monitor calls
// it every second.
func (n *Node) runRouter() {
	r := &n.router
	if !r.forwards() {
		return
	}
	second := n.second.Load()
	started, stopped := r.due(second)
	if stopped {
		n.forwardingEnded()
		return
	}
	if started {
		n.log.Info("routing enabled")
		n.restate()
	}
	n.checkNets(second)
}

// due ends the starting of the router, or its stopping, if it is time, and says which.
func (r *router) due(second int64) (started, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch RoutingState(r.state.Load()) {
	case RoutingStarting:
		if started = second >= r.until; started {
			r.state.Store(uint32(RoutingEnabled))
		}
	case RoutingStopping:
		stopped = second >= r.until || second >= r.since+int64(drainLeast/time.Second) && r.idle()
		if stopped {
			r.end()
		}
	}
	return started, stopped
}

func (r *router) idle() bool {
	for k := range r.pools {
		if !r.pools[k].idle() {
			return false
		}
	}
	return true
}

// stopForwarding ends the router role: what waits is dropped, and the buffers are
// freed as they come back.
func (n *Node) stopForwarding() {
	r := &n.router
	r.mu.Lock()
	was := r.forwards()
	r.end()
	r.mu.Unlock()
	if was {
		n.forwardingEnded()
	}
}

// end has the router forward no more. mu is held.
func (r *router) end() {
	r.state.Store(uint32(RoutingDisabled))
	r.resize([poolKinds]int{}) // to nothing: nobody goes on
}

// forwardingEnded drops what waits, after router.end.
func (n *Node) forwardingEnded() {
	n.dropForwards(DropNotRouter, func(*message) bool { return true })
	n.endSilence()
	n.log.Info("routing disabled")
}

// drain ends the router role and waits until that is done, or ctx is. Peers hear
// of it by a push, and what they send until then is forwarded.
func (n *Node) drain(ctx context.Context) {
	if !n.router.forwards() {
		return
	}
	n.DisableRouting()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n.router.forwards() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// silence is how long no ping may come on a net before its NIs count as down.
func (p *Parameters) silence() int64 {
	return int64((p.RouterPingTimeout + p.RouterCheckInterval) / time.Second)
}

// checkNets calls NIs down on whose net nobody has pinged for long (lnet-core
// 9.2).
func (n *Node) checkNets(second int64) {
	silence := n.parameters.Load().silence()
	last := map[lnet.Net]int64{}
	nis := n.topology.Load().nis
	for _, i := range nis {
		last[i.net] = max(last[i.net], i.lastPing.Load())
	}
	changed := false
	for _, i := range nis {
		if second-last[i.net] < silence || i.down()&DownSilence != 0 {
			continue
		}
		changed = i.callSilent(second-silence) || changed
	}
	if changed {
		n.restate()
	}
}

// callSilent calls an NI down on whose net no ping has come since a second. It
// tells whether that is news to peers.
func (i *ni) callSilent(since int64) bool {
	news := i.blame(DownSilence, true)
	if i.lastPing.Load() > since { // one came at this moment
		i.blame(DownSilence, false)
		return false
	}
	i.node.log.Tell(boundedlog.Line{Level: slog.LevelInfo, Text: "nobody pings on the net of this router's NI: it counts as down", Of: boundedlog.AboutNI(i.NID)})
	return news
}

// noteRouterPing notes a ping from another node, by which it may see that this NI
// of a router is alive.
func (i *ni) noteRouterPing(h *lnet.Header) {
	if h.Type != lnet.MsgGet || h.Portal != lnet.ReservedPortal || i.loopback || i.node.topology.Load().find(h.Src) != nil {
		return
	}
	if second := i.node.second.Load(); i.lastPing.Load() != second {
		i.lastPing.Store(second)
	}
	if i.stored.Load() != 0 && i.blame(DownHealth|DownSilence, false) {
		i.node.restate()
	}
}

// restate has ping info put up as it is now, under the same sequence number, and
// every multi-rail peer told (discovery 4.4, 5.2).
func (n *Node) restate() {
	n.pushAll.Store(true)
	n.restateInfo()
}
