package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

const (
	// absentMax is how many NIDs absent remembers at least.
	absentMax = 8192
	// absentPause bounds the pause, in seconds, before one is tried again.
	absentPause = 60
)

// absent remembers the NIDs that this router did not reach, of which nothing else
// is known: messages for them are dropped until a pause is over, which doubles
// with each failure, from 1 s. What there is of a NID that answers is a peer NI.
type absent struct {
	mu sync.Mutex // guards young and old
	// young and old are a memory in two parts: when the young one is full it takes
	// the place of the old one.
	young, old map[lnet.NID]absence
}

// absence is how long a NID is left alone: seconds of the node's clock.
type absence struct{ until, pause int64 }

func (a *absent) find(nid lnet.NID) absence {
	if x, ok := a.young[nid]; ok {
		return x
	}
	return a.old[nid]
}

// away tells whether a NID is left alone at a second.
func (a *absent) away(nid lnet.NID, second int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return second < a.find(nid).until
}

// note notes that a NID was not reached.
func (a *absent) note(nid lnet.NID, second int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.find(nid)
	if second < x.until { // of the same attempt
		return
	}
	x.pause = min(max(1, 2*x.pause), absentPause)
	x.until = second + x.pause
	if len(a.young) >= absentMax {
		a.old, a.young = a.young, nil
	}
	if a.young == nil {
		a.young = map[lnet.NID]absence{}
	}
	a.young[nid] = x
}

// missing notes that a message could not be forwarded to a NID. If nothing else
// is known of it, it is forgotten as a peer.
func (n *Node) missing(nid lnet.NID) {
	p := n.peers.find(nid)
	if p == nil || !p.unproven() {
		return
	}
	if n.topology.Load().first(nid.Net()) != nil {
		n.absent.note(nid, n.second.Load())
	}
	n.discoverer.forget(nid)
}
