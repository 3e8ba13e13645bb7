package node

import (
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// unansweredLife is how long, in seconds, a peer is kept after the last attempt to reach
	// it. It applies to peers from which no message has ever arrived, that no program has
	// used, and that are not configured. Kernels keep such peers forever (decisions 96).
	unansweredLife = 600
	// unansweredPause is the pause, in seconds, between two searches for such peers.
	unansweredPause = 60
)

// unanswered is the state of the search for peers that never answered; see unansweredLife.
type unanswered struct {
	// possible is set if such peers may exist: because one was found in the last search, or a
	// peer NI was created since.
	possible atomic.Bool
	next     int64 // when the discoverer searches again, in seconds of the node's clock
}

// expireUnanswered removes the peers that never answered and whose time is over. It
// returns the pause until it must be called again.
func (d *discoverer) expireUnanswered() time.Duration {
	n := d.node
	u := &n.unanswered
	if !u.possible.Load() {
		return idleSleep
	}
	now := n.second.Load()
	if now < u.next {
		return time.Duration(u.next-now) * time.Second
	}
	u.next = now + unansweredPause
	u.possible.Store(false)
	var over []lnet.NID
	for v, hold := range d.machine.Holds() {
		if hold == discovery.Named {
			continue
		}
		last, never := n.lastAttempt(v)
		if !never {
			continue
		}
		u.possible.Store(true)
		if _, free := n.evictionRank(v); free && now-last >= unansweredLife {
			over = append(over, v.Primary)
		}
	}
	for _, nid := range over {
		d.machine.Forget(n.machineNow(), nid)
		d.act()
	}
	return unansweredPause * time.Second
}

// lastAttempt returns the second in which this node created the peer or last failed to
// reach it. never reports whether no message has arrived from the peer and no program's
// message was sent to it; only then last is valid.
func (n *Node) lastAttempt(v *discovery.View) (last int64, never bool) {
	for _, nid := range v.NIDs {
		p := n.peers.find(nid)
		if p == nil {
			continue
		}
		if p.lastAlive.Load() != 0 || p.used.Load() != 0 {
			return 0, false
		}
		last = max(last, p.created.Load())
		if f := p.failure.Load(); f != nil {
			last = max(last, f.second)
		}
	}
	return last, true
}
