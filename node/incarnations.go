package node

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// endedIncarnations holds incarnations of peers that have ended and whose unanswered requests the
// monitor has not searched for yet.
type endedIncarnations struct {
	// epoch counts ended incarnations. Each request records it after it was sent. A request
	// sent before an end went to the incarnation that ended, because a driver uses no
	// connection to the next one before it has reported the end (lnd.Upper).
	epoch atomic.Uint64

	mu           sync.Mutex // guards incarnations and lastSearch, and increments of epoch
	incarnations []portals.Departure
	lastSearch   int64 // second of the last search
}

// departure returns how the request m was sent. It returns the zero value if m did not go
// to its target directly, because the incarnation of a router is not that of the target.
func (m *message) departure() portals.Departure {
	h := &m.tx.Header
	if m.ni == nil || m.tx.To.NID != h.Dest {
		return portals.Departure{}
	}
	return portals.Departure{From: m.ni.NID, To: h.Dest, Epoch: m.node.endedIncarnations.epoch.Load()}
}

// noteRestart records that requests sent from i to nid so far will not be answered.
func (n *Node) noteRestart(i *ni, nid lnet.NID) {
	o := &n.endedIncarnations
	o.mu.Lock()
	life := portals.Departure{From: i.NID, To: nid, Epoch: o.epoch.Add(1)}
	k := slices.IndexFunc(o.incarnations, func(l portals.Departure) bool { return l.From == life.From && l.To == life.To })
	if k >= 0 {
		o.incarnations[k] = life
	} else {
		o.incarnations = append(o.incarnations, life)
	}
	o.mu.Unlock()
	n.wakeMonitor()
}

// probeOthers checks the other connections to a peer after i reported a new incarnation
// of one of its NIDs: those between all known NIDs of the peer and all NIs of this node.
// The peer may only have removed and added one NI, and a HELLO may be forged. So each
// connection is probed, and none is closed because of the report alone.
func (n *Node) probeOthers(i *ni, nid lnet.NID) {
	nids := []lnet.NID{nid}
	if p := n.peers.find(nid); p != nil {
		if v := p.view(); v != nil {
			nids = v.NIDs
		}
	}
	t := n.topology.Load()
	for _, other := range nids {
		for _, j := range t.nis {
			if j.net != other.Net() || j == i && other == nid {
				continue
			}
			if !j.iface.Probe(other) { // for what was sent on a connection that is gone
				n.noteRestart(j, other)
			}
		}
	}
}

// endUnanswered ends requests to incarnations that are over with ErrRestarted. It
// searches at most once per second, however often a peer reports a new incarnation.
func (n *Node) endUnanswered(second int64) {
	o := &n.endedIncarnations
	o.mu.Lock()
	if len(o.incarnations) == 0 || o.lastSearch == second {
		o.mu.Unlock()
		return
	}
	lives := o.incarnations
	o.incarnations, o.lastSearch = nil, second
	o.mu.Unlock()
	for _, u := range n.table.AppendUnanswered(nil, lives) {
		if n.table.UnlinkUnanswered(u.Handle, lives, ErrRestarted) == nil {
			n.log.Debug("the peer restarted before it answered", "md", u.Handle, "hop", u.NextHop)
		}
	}
}
