package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

const (
	// absentMax is the number of recently failed NIDs that absent remembers at least. It
	// remembers at most twice as many.
	absentMax = 8192
	// absentPause is the longest time, in seconds, for which messages to a NID are dropped
	// after a failed attempt to reach it.
	absentPause = 60
)

// absent remembers NIDs on local nets that this router failed to reach and knows only as
// destinations of messages. Further messages for such a NID are dropped until its pause is
// over; the next message after that is another attempt. The pause starts at 1 s and
// doubles with each failed attempt. A NID that answers becomes a peer NI.
type absent struct {
	mu sync.Mutex // guards recent and older
	// Entries are added to recent. When recent is full, it becomes older, a new recent is
	// started, and the entries of the previous older are lost.
	recent, older map[lnet.NID]absence
}

// absence is the state of one NID: when its pause ends, in seconds of the node's clock,
// and how long the pause is, in seconds.
type absence struct{ end, pause int64 }

func (a *absent) find(nid lnet.NID) absence {
	if x, ok := a.recent[nid]; ok {
		return x
	}
	return a.older[nid]
}

// paused reports whether messages for nid must be dropped at the given second of the
// node's clock.
func (a *absent) paused(nid lnet.NID, second int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return second < a.find(nid).end
}

// note starts the next, longer pause of nid after a failed attempt. It does nothing during
// a pause, because messages that fail then belong to the attempt that started it.
func (a *absent) note(nid lnet.NID, second int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.find(nid)
	if second < x.end { // a failure during the pause belongs to the attempt that started it
		return
	}
	x.pause = min(max(1, 2*x.pause), absentPause)
	x.end = second + x.pause
	if len(a.recent) >= absentMax {
		a.older, a.recent = a.recent, nil
	}
	if a.recent == nil {
		a.recent = map[lnet.NID]absence{}
	}
	a.recent[nid] = x
}

// missing handles a message that could not be forwarded to nid. If this node knows nid
// only as the destination of such messages, missing removes its peer, and if nid is on a
// local net, messages for it are dropped for a while (see absent).
func (n *Node) missing(nid lnet.NID) {
	p := n.peers.find(nid)
	if p == nil || !p.onlyMentioned() {
		return
	}
	if n.topology.Load().first(nid.Net()) != nil {
		n.absent.note(nid, n.second.Load())
	}
	n.discoverer.forget(nid)
}
