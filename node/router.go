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

// The values of RoutingState are those that commands show. The node forwards messages in
// all states except RoutingDisabled. It announces that it is a router only in
// RoutingEnabled.
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
	// Buffers is the maximum number of buffers. Credits is the number of free ones; if n
	// messages wait for a buffer, it is -n. MinCredits is the lowest value that Credits ever
	// had.
	Buffers, Credits, MinCredits int
}

// RoutingInfo describes a node's router role.
type RoutingInfo struct {
	State RoutingState
	// Ever reports whether routing was enabled since the node was created or StopRouting was
	// last called.
	Ever bool
	// Pools are the pools of tiny, small and large buffers.
	Pools [poolKinds]PoolInfo
}

// Limits for how long a router that is stopping continues to forward messages (decisions
// 23).
const (
	drainMost  = 10 * time.Second // longest time, even if buffers are in use
	drainLeast = 2 * time.Second  // shortest time, in which peers can be notified
)

// router is the state of the node's router role.
type router struct {
	state atomic.Uint32 // RoutingState
	pools [poolKinds]pool

	everEnabled atomic.Bool
	mu          sync.Mutex // guards changes of state, and the fields below
	sizes       Buffers
	// Times in seconds of the node's clock. In RoutingStarting, until is when that state
	// ends. In RoutingStopping, since is when it began, and until is when it ends at the
	// latest.
	since, until int64
}

func (r *router) init(b Buffers) {
	r.sizes = b
	for k := range r.pools {
		r.pools[k].init(poolSizes[k].pages)
	}
}

// forwards reports whether the node forwards messages, which it does in all states except
// RoutingDisabled.
func (r *router) forwards() bool { return RoutingState(r.state.Load()) != RoutingDisabled }

// announced reports whether the node announces itself as a router.
func (r *router) announced() bool { return RoutingState(r.state.Load()) == RoutingEnabled }

// EnableRouting makes the node a router. The node begins to forward messages immediately.
// It announces this to other nodes only after RouterCheckInterval plus RouterPingTimeout,
// when it knows which NIs receive pings. EnableRouting returns ErrBusy while routing is
// being disabled, or ErrClosed. It does not block.
func (a *Admin) EnableRouting() error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(false)
	n.forwardGranted(&ready)
	return err
}

// ResumeRouting is like EnableRouting, but also enables routing again while it is being
// disabled. Messages that wait to be forwarded are then kept.
func (a *Admin) ResumeRouting() error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("enable routing: %w", err)
	}
	ready, err := n.enableRouting(true)
	n.forwardGranted(&ready)
	return err
}

// enableRouting starts forwarding and returns the messages that may continue. If resume is
// true, this is possible even while the router is stopping.
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
	n.log.Info("routing is starting")
	return n.startForwarding(RoutingStarting), nil
}

// startForwarding sets the state s and the sizes of the pools. It returns messages that
// were waiting for buffers and now have one. router.mu must be held, except in New.
func (n *Node) startForwarding(s RoutingState) (ready messageQueue) {
	r := &n.router
	r.everEnabled.Store(true)
	ready = r.resize(r.sizes.numbers())
	for _, i := range n.topology.Load().nis {
		i.lastPing.Store(n.second.Load()) // every NI counts as pinged at first
	}
	r.state.Store(uint32(s))
	return ready
}

// resize sets the numbers of buffers in the pools, and returns the messages that waited
// for buffers and now may continue.
func (r *router) resize(numbers [poolKinds]int) (ready messageQueue) {
	for k := range r.pools {
		more := r.pools[k].resize(numbers[k])
		ready.append(&more)
	}
	return ready
}

// DisableRouting ends the router role. Peers are notified immediately. Messages that they
// still send are forwarded for at most 10 s, and dropped after that. DisableRouting does
// not wait for the end.
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
	n.log.Info("routing is stopping")
	n.republish()
}

// StopRouting ends the router role immediately. Messages that wait to be forwarded are
// dropped, and RoutingInfo.Ever becomes false. Routing can be enabled again later.
func (a *Admin) StopRouting() {
	n := a.n
	if !n.isMade() {
		return
	}
	n.disableRouting()
	n.stopForwarding()
	n.router.everEnabled.Store(false)
}

// SetBuffers sets the number of buffers in each pool. A negative number leaves a pool
// unchanged, and 0 means the default. If the node does not forward, the numbers take
// effect when routing is enabled.
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
			n.log.Warn("fewer router buffers than recommended; forwarded messages may have to wait for one", "pages", s.pages, "buffers", numbers[k], "recommended", s.least)
		}
	}
	if r.forwards() {
		ready = r.resize(numbers)
	}
	return ready
}

// Buffers returns the number of buffers in each pool while the node forwards.
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

// runRouter ends the states of starting and stopping when it is time, and checks which NIs
// receive pings. The monitor calls it every second.
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

// finishTransition ends RoutingStarting or RoutingStopping if it is time, and reports
// which of the two has ended.
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

// stopForwarding ends the router role immediately. Waiting messages are dropped. Buffers
// in use are freed when their messages release them.
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

// end disables forwarding and resizes the pools to 0. The caller must then call
// forwardingEnded. r.mu must be held.
func (r *router) end() {
	r.state.Store(uint32(RoutingDisabled))
	r.resize([poolKinds]int{}) // the result is empty, because a size of 0 gives no message a credit
}

// forwardingEnded drops the messages that wait to be forwarded, after router.end.
func (n *Node) forwardingEnded() {
	n.dropForwards(DropNotRouter, func(*message) bool { return true })
	n.endSilence()
	n.log.Info("routing disabled")
}

// drain disables routing and waits until the node has stopped forwarding or ctx is done.
// Until then, peers are notified by pushes, and messages that they still send are
// forwarded.
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

// silenceLimit returns the number of seconds without a ping after which a router marks the
// NIs of a net as down.
func (p *Parameters) silenceLimit() int64 {
	return int64((p.RouterPingTimeout + p.RouterCheckInterval) / time.Second)
}

// checkNets marks the NIs of each net on which no ping has arrived for too long as down
// (lnet-core 9.2).
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

// markSilent marks an NI as down because no ping arrived on its net after the second
// since. It reports whether the NI's status in ping info has changed.
func (i *ni) markSilent(since int64) bool {
	news := i.blame(DownSilence, true)
	if i.lastPing.Load() > since { // a ping has arrived since the caller's check
		i.blame(DownSilence, false)
		return false
	}
	i.node.log.Report(boundedlog.Line{Level: slog.LevelInfo, Text: "no ping arrived on the net of a router NI for too long; the NI is reported as down", Of: boundedlog.AboutNI(i.NID)})
	return news
}

// noteRouterPing records that a ping from another node has arrived, if the message with
// header h is such a ping. It shows that this NI of a router is alive, so it ends
// DownHealth and DownSilence.
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

// republish publishes ping info with the current status of the NIs, under the same
// sequence number, and makes discovery push it to every multi-rail peer (discovery 4.4,
// 5.2).
func (n *Node) republish() {
	n.pushAll.Store(true)
	n.republishInfo()
}
