package node

import (
	"sync"

	"github.com/lnetd/lnetd/lnet"
)

// lostNeighbours collects neighbours whose connections were lost, or that have stalled while
// there may be another path, until the monitor processes them. LNet's own pings and
// pushes whose answers were expected from such a neighbour are ended then, and are
// repeated by the code that made them. Otherwise they would end only when their trackers
// time out, and by then a router that receives no pings has marked its NI as down.
type lostNeighbours struct {
	mu   sync.Mutex // guards the fields below
	nids map[lnet.NID]struct{}
	nets map[lnet.Net]struct{} // nets on which a local link went down, which may affect all neighbours
}

// add records that connections to a neighbour were lost.
func (l *lostNeighbours) add(nid lnet.NID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nids == nil {
		l.nids = map[lnet.NID]struct{}{}
	}
	l.nids[nid] = struct{}{}
}

// addNet records that a local link on a net went down. Messages under way there may be
// stuck until it is up again.
func (l *lostNeighbours) addNet(net lnet.Net) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nets == nil {
		l.nets = map[lnet.Net]struct{}{}
	}
	l.nets[net] = struct{}{}
}

// take empties l. It returns a function that reports whether a neighbour was lost, or nil
// if none was.
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

// endLost ends LNet's own requests to lost neighbours. It is called by the monitor, which
// sends these requests.
func (n *Node) endLost() {
	lost := n.lostNeighbours.take()
	if lost == nil {
		return
	}
	strands := func(md lnet.Handle) bool { return lost(n.table.NextHop(md)) }
	for _, e := range n.discoverer.exchanges.sent() {
		if strands(e.handle) {
			e.lost.Store(true)
			_ = n.table.Unlink(e.handle) // not found: it has ended
		}
	}
	for _, p := range n.recovery.pinged() {
		if strands(p.ping) {
			_ = n.table.Unlink(p.ping) // as above
		}
	}
}
