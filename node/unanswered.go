package node

import (
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
)

const (
	// unansweredLife is how long, in seconds, the node keeps a peer after the last attempt to
	// reach it, if the peer has never answered, no program has used it, and it is not
	// configured. Kernels keep such peers forever (decisions 96).
	unansweredLife = 600
	// unansweredPause is the pause between two searches for such peers, in seconds.
	unansweredPause = 60
)

// unanswered removes peers from which no message has ever come, and that are not
// configured.
type unanswered struct {
	// possible is set if there may be such peers: a peer NI was created since the last search.
	possible atomic.Bool
	next     int64 // when the discoverer searches again, in seconds of the node's clock
}

// expireUnanswered removes the peers whose time is over. It returns the pause until the
// next call.
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

// lastAttempt returns the second in which the node created a peer or last failed to reach
// it. never reports whether no message has come from the peer, and no program's message
// has been sent to it.
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
