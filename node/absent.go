package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

const (
	// absentMax is the number of NIDs that absent remembers at least.
	absentMax = 8192
	// absentPause is the longest pause before the next attempt, in seconds.
	absentPause = 60
)

// absent remembers NIDs that this router failed to reach and knows nothing else about.
// Messages for them are dropped until a pause is over. The pause starts at 1 s and
// doubles with each failure. A NID that answers becomes a peer NI.
type absent struct {
	mu sync.Mutex // guards recent and older
	// Entries are added to recent. When it is full, it replaces older.
	recent, older map[lnet.NID]absence
}

// absence holds when the next attempt is allowed, in seconds of the node's clock, and the
// length of the pause in seconds.
type absence struct{ end, pause int64 }

func (a *absent) find(nid lnet.NID) absence {
	if x, ok := a.recent[nid]; ok {
		return x
	}
	return a.older[nid]
}

// paused reports whether the pause of a NID is not over yet.
func (a *absent) paused(nid lnet.NID, second int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return second < a.find(nid).end
}

// note records that a NID was not reached.
func (a *absent) note(nid lnet.NID, second int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.find(nid)
	if second < x.end { // part of the same attempt
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

// missing records that a message could not be forwarded to nid. If nothing else is known
// about nid, its peer is removed.
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
