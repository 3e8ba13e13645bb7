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

// RoutingState is the state of a node's router role (lnet-core 9.1).
type RoutingState uint8

// The values are those that commands show. The node forwards messages in all states
// except RoutingDisabled. It announces itself as a router only in RoutingEnabled.
const (
	RoutingDisabled RoutingState = iota
	RoutingEnabled
	RoutingStopping
	RoutingStarting
)

// PoolInfo describes a pool of router buffers.
type PoolInfo struct {
	// Pages is the size of a buffer in pages of 4096 bytes.
	Pages int
	// Buffers is the maximum number of buffers. Credits is the number of free ones; it is
	// negative if messages are waiting, by their number. MinCredits is the lowest value that
	// Credits ever had.
	Buffers, Credits, MinCredits int
}

// RoutingInfo describes the router role.
type RoutingInfo struct {
	State RoutingState
	// Ever reports whether the node has forwarded since it was created, or since StopRouting.
	Ever bool
	// Pools are the pools of tiny, small and large buffers.
	Pools [poolKinds]PoolInfo
}

// Limits for stopping a router (decisions 23).
const (
	drainMost  = 10 * time.Second // longest time that it continues to forward
	drainLeast = 2 * time.Second  // shortest time, so that peers can be notified
)

// router is the state of the router role.
type router struct {
	state atomic.Uint32 // RoutingState
	pools [poolKinds]pool

	everEnabled atomic.Bool
	mu          sync.Mutex // guards changes of state, and the fields below
	sizes       Buffers
	// In seconds of the node's clock: until is when starting ends, or the latest end of
	// stopping; since is when stopping began.
	since, until int64
}

func (r *router) init(b Buffers) {
	r.sizes = b
	for k := range r.pools {
		r.pools[k].init(poolSizes[k].pages)
	}
}

// forwards reports whether the node forwards messages.
func (r *router) forwards() bool { return RoutingState(r.state.Load()) != RoutingDisabled }

// announced reports whether the node announces itself as a router.
func (r *router) announced() bool { return RoutingState(r.state.Load()) == RoutingEnabled }

// EnableRouting makes the node a router. It forwards at once. It announces that to others
// after RouterCheckInterval plus RouterPingTimeout, when it has determined which of its
// NIs are alive. It returns ErrBusy while the node is stopping to route, or ErrClosed. It
// does not block.
func (a *Admin) EnableRouting() error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(false)
	n.forwardGranted(&ready)
	return err
}

// ResumeRouting is like EnableRouting, but if the node is stopping to route, it starts
// again, and messages that wait to be forwarded continue.
func (a *Admin) ResumeRouting() error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(true)
	n.forwardGranted(&ready)
	return err
}

// enableRouting returns the messages that may continue. If resume is true, a router that
// is stopping starts again.
func (n *Node) enableRouting(resume bool) (ready messageQueue, err error) {
	r := &n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	switch RoutingState(r.state.Load()) {
	case RoutingStopping:
		if !resume {
			return ready, fmt.Errorf("enable routing: routing is still stopping: %w", ErrBusy)
		}
	case RoutingDisabled:
	default:
		return ready, nil
	}
	if n.isClosing() {
		return ready, fmt.Errorf("enable routing: %w", ErrClosed)
	}
	r.until = n.second.Load() + n.parameters.Load().silenceLimit()
	n.log.Info("routing starts")
	return n.startForwarding(RoutingStarting), nil
}

// startForwarding creates the pools and returns the messages that still wait for them
// from an earlier period. router.mu must be held, except in New.
func (n *Node) startForwarding(s RoutingState) (ready messageQueue) {
	r := &n.router
	r.everEnabled.Store(true)
	ready = r.resize(r.sizes.numbers())
	for _, i := range n.topology.Load().nis {
		i.lastPing.Store(n.second.Load()) // all count as alive at first
	}
	r.state.Store(uint32(s))
	return ready
}

// resize sets the numbers of buffers and returns the messages that may continue.
func (r *router) resize(numbers [poolKinds]int) (ready messageQueue) {
	for k := range r.pools {
		more := r.pools[k].resize(numbers[k])
		ready.append(&more)
	}
	return ready
}

// DisableRouting ends the router role. Peers are notified at once. Messages that they
// still send are forwarded for at most 10 s and then dropped. DisableRouting does not
// wait for that.
func (a *Admin) DisableRouting() {
	if a.n.isMade() {
		a.n.disableRouting()
	}
}

func (n *Node) disableRouting() {
	r := &n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := RoutingState(r.state.Load()); s == RoutingDisabled || s == RoutingStopping {
		return
	}
	r.state.Store(uint32(RoutingStopping))
	r.since = n.second.Load()
	r.until = r.since + int64(drainMost/time.Second)
	n.log.Info("routing stops")
	n.republish()
}

// StopRouting ends the router role at once. Messages that wait to be forwarded are
// dropped, and RoutingInfo.Ever becomes false. Routing can be enabled again.
func (a *Admin) StopRouting() {
	n := a.n
	if !n.isMade() {
		return
	}
	n.disableRouting()
	n.stopForwarding()
	n.router.everEnabled.Store(false)
}

// SetBuffers sets the sizes of the pools. A negative number leaves a size unchanged, 0
// means the default. The sizes take effect while the node forwards.
func (a *Admin) SetBuffers(b Buffers) {
	n := a.n
	if !n.isMade() {
		return
	}
	ready := n.setBuffers(b)
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

// Buffers returns the sizes of the pools, which take effect while the node forwards.
func (a *Admin) Buffers() Buffers {
	n := a.n
	if !n.isMade() {
		return Buffers{}
	}
	n.router.mu.Lock()
	defer n.router.mu.Unlock()
	return n.router.sizes.Resolved()
}

// Routing describes the router role.
func (a *Admin) Routing() RoutingInfo {
	if !a.n.isMade() {
		return RoutingInfo{}
	}
	r := &a.n.router
	r.mu.Lock()
	defer r.mu.Unlock()
	info := RoutingInfo{State: RoutingState(r.state.Load()), Ever: r.everEnabled.Load()}
	for k := range r.pools {
		c := r.pools[k].credits.info()
		info.Pools[k] = PoolInfo{
			Pages: r.pools[k].pages, Buffers: c.Max, Credits: c.Available, MinCredits: c.Min,
		}
	}
	return info
}

// runRouter advances the state and checks which NIs are alive. The monitor calls it every
// second.
func (n *Node) runRouter() {
	r := &n.router
	if !r.forwards() {
		return
	}
	second := n.second.Load()
	started, stopped := r.finishTransition(second)
	if stopped {
		n.forwardingEnded()
		return
	}
	if started {
		n.log.Info("routing enabled")
		n.republish()
	}
	n.checkNets(second)
}

// finishTransition ends the starting or stopping of the router if it is time, and reports which of
// them has ended.
func (r *router) finishTransition(second int64) (started, stopped bool) {
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

// stopForwarding ends the router role. Waiting messages are dropped, and the buffers are
// freed when they are released.
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

// end disables forwarding. r.mu must be held.
func (r *router) end() {
	r.state.Store(uint32(RoutingDisabled))
	r.resize([poolKinds]int{}) // no message continues when the size becomes 0
}

// forwardingEnded drops the waiting messages after router.end.
func (n *Node) forwardingEnded() {
	n.dropForwards(DropNotRouter, func(*message) bool { return true })
	n.endSilence()
	n.log.Info("routing disabled")
}

// drain ends the router role and waits until that is done or ctx is. Peers are notified
// by a push, and messages that they send before that are forwarded.
func (n *Node) drain(ctx context.Context) {
	if !n.router.forwards() {
		return
	}
	n.disableRouting()
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

// silenceLimit returns how many seconds a net may be without pings before its NIs are marked
// as down.
func (p *Parameters) silenceLimit() int64 {
	return int64((p.RouterPingTimeout + p.RouterCheckInterval) / time.Second)
}

// checkNets marks the NIs of nets that were not pinged for too long as down (lnet-core
// 9.2).
func (n *Node) checkNets(second int64) {
	silence := n.parameters.Load().silenceLimit()
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
		changed = i.markSilent(second-silence) || changed
	}
	if changed {
		n.republish()
	}
}

// markSilent marks an NI as down because no ping arrived on its net after the given
// second. It reports whether the status in ping info changed.
func (i *ni) markSilent(since int64) bool {
	news := i.blame(DownSilence, true)
	if i.lastPing.Load() > since { // one arrived at this moment
		i.blame(DownSilence, false)
		return false
	}
	i.node.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "no pings arrive from the net of a router NI; the NI counts as down", Of: boundedlog.AboutNI(i.NID)})
	return news
}

// noteRouterPing records a ping from another node, which shows that this NI of a router
// is alive.
func (i *ni) noteRouterPing(h *lnet.Header) {
	if h.Type != lnet.MsgGet || h.Portal != lnet.ReservedPortal || i.loopback || i.node.topology.Load().find(h.Src) != nil {
		return
	}
	if second := i.node.second.Load(); i.lastPing.Load() != second {
		i.lastPing.Store(second)
	}
	if i.stored.Load() != 0 && i.blame(DownHealth|DownSilence, false) {
		i.node.republish()
	}
}

// republish publishes the current ping info under the same sequence number, and pushes it
// to every multi-rail peer (discovery 4.4, 5.2).
func (n *Node) republish() {
	n.pushAll.Store(true)
	n.republishInfo()
}
