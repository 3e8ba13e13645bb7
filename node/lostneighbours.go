package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// lostNeighbours collects neighbours to which connections were lost, or which have stalled
// although another path may exist, until the monitor processes them. The monitor then ends
// LNet's own pings and pushes whose answers were expected from these neighbours, and
// discovery or recovery sends them again. Otherwise they would end only when their
// responses are overdue. By then, a router that receives no pings would have marked its NI
// as down.
type lostNeighbours struct {
	mu   sync.Mutex // guards the fields below
	nids map[lnet.NID]struct{}
	nets map[lnet.Net]struct{} // nets on which a local link went down, which may affect all neighbours
}

// add records that connections to the neighbour nid were lost.
func (l *lostNeighbours) add(nid lnet.NID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nids == nil {
		l.nids = map[lnet.NID]struct{}{}
	}
	l.nids[nid] = struct{}{}
}

// addNet records that a local link on a net went down. Messages under way on that net may
// be stuck until the link is up again.
func (l *lostNeighbours) addNet(net lnet.Net) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nets == nil {
		l.nets = map[lnet.Net]struct{}{}
	}
	l.nets[net] = struct{}{}
}

// take empties l. It returns a function that reports whether the neighbour hop was in l.
// If l is empty, it returns nil.
func (l *lostNeighbours) take() func(hop lnet.NID) bool {
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

// endLost ends LNet's own requests whose answers are expected from lost neighbours. The
// monitor calls it, because it also sends these requests.
func (n *Node) endLost() {
	lost := n.lostNeighbours.take()
	if lost == nil {
		return
	}
	strands := func(md lnet.Handle) bool { return lost(n.table.NextHop(md)) }
	for _, e := range n.discoverer.exchanges.sent() {
		if strands(e.handle) {
			e.lost.Store(true)
			_ = n.table.Unlink(e.handle) // not found: the MD has ended already
		}
	}
	for _, p := range n.recovery.pinged() {
		if strands(p.ping) {
			_ = n.table.Unlink(p.ping) // not found: the MD has ended already
		}
	}
}
