package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// lostHops are the neighbours with which connections have died, or that have stalled
// while there may be another way, since the monitor last looked. LNet's own pings and
// pushes whose answers were to come from there end then, and whoever made them makes
// them again: nobody else would before their trackers end, by when a router that hears
// no ping has called its NI down.
type lostHops struct {
	mu   sync.Mutex // guards the rest
	nids map[lnet.NID]struct{}
	nets map[lnet.Net]struct{} // a link of ours there has gone: so may all neighbours
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

// addNet notes that one of our links on a net has gone: what is on its way there may
// stay there until it is back.
func (l *lostHops) addNet(net lnet.Net) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nets == nil {
		l.nets = map[lnet.Net]struct{}{}
	}
	l.nets[net] = struct{}{}
}

// take returns whether a neighbour is among those that have been lost; nil: none is.
func (l *lostHops) take() func(hop lnet.NID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	nids, nets := l.nids, l.nets
	l.nids, l.nets = nil, nil
	if len(nids)+len(nets) == 0 {
		return nil
	}
	return func(hop lnet.NID) bool {
		_, lost := nids[hop]
		_, cut := nets[hop.Net()]
		return lost || cut
	}
}

// endLost ends LNet's own requests to neighbours that have been lost. The monitor,
// which sends them, calls it.
func (n *Node) endLost() {
	lost := n.lostHops.take()
	if lost == nil {
		return
	}
	strands := func(md lnet.Handle) bool { return lost(n.table.Awaits(md)) }
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
