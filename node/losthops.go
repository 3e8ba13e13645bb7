package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// lostHops are the neighbours with which connections have died since the monitor
// last looked. LNet's own pings and pushes whose answers were to come from there
// end then, and whoever made them makes them again: nobody else would before their
// trackers end, by when a router that hears no ping has called its NI down.
type lostHops struct {
	mu   sync.Mutex // guards nids
	nids map[lnet.NID]struct{}
}

// add notes that connections with a neighbour have died.
func (l *lostHops) add(nid lnet.NID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nids == nil {
		l.nids = map[lnet.NID]struct{}{}
	}
	l.nids[nid] = struct{}{}
}

func (l *lostHops) take() map[lnet.NID]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	nids := l.nids
	l.nids = nil
	return nids
}

// endLost ends LNet's own requests to neighbours that have been lost. The monitor,
// which sends them, calls it.
func (n *Node) endLost() {
	lost := n.lostHops.take()
	if len(lost) == 0 {
		return
	}
	strands := func(md lnet.Handle) bool {
		_, ok := lost[n.table.Awaits(md)]
		return ok
	}
	for _, e := range n.discoverer.exchanges.sent() {
		if strands(e.handle) {
			e.lost.Store(true)
			_ = n.table.Unlink(e.handle) // not found: it is through
		}
	}
	for _, p := range n.recovery.pinged() {
		if strands(p.ping) {
			_ = n.table.Unlink(p.ping) // as above
		}
	}
}
