package node

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// endedIncarnations holds the ended incarnations of peers for whose unanswered requests
// the monitor has not searched yet.
type endedIncarnations struct {
	// epoch counts the ends of incarnations. Each request records the epoch after it was
	// sent. If it recorded a lower number than the end of an incarnation of its target, it
	// went to that incarnation: a driver reports the end before it uses a connection to the
	// next incarnation (lnd.Upper).
	epoch atomic.Uint64

	mu           sync.Mutex // guards incarnations and lastSearch, and increments of epoch
	incarnations []portals.Departure
	lastSearch   int64 // second of the last search
}

// departure returns the NIDs and the epoch with which the request m was sent. It returns
// the zero value if m went through a router, because the incarnation of the router is not
// that of the target.
func (m *message) departure() portals.Departure {
	h := &m.tx.Header
	if m.ni == nil || m.tx.To.NID != h.Dest {
		return portals.Departure{}
	}
	return portals.Departure{From: m.ni.NID, To: h.Dest, Epoch: m.node.endedIncarnations.epoch.Load()}
}

// noteRestart records that the incarnation of nid to which i was connected has ended. The
// monitor then ends the requests that were sent from i to nid so far, because they will
// not be answered.
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

// probeOthers makes drivers check the other connections to a peer after i reported a new
// incarnation of nid, which is one of the peer's NIDs. It covers all pairs of a local NI
// and a known NID of the peer, except i and nid themselves. The connections are only
// probed and not closed, because the peer may merely have removed and added one NI, and
// because a HELLO may be forged.
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
			if !j.iface.Probe(other) { // no connection is left to probe; requests on earlier ones are not answered
				n.noteRestart(j, other)
			}
		}
	}
}

// endUnanswered ends the unanswered requests to ended incarnations with ErrRestarted. It
// searches at most once per second, however often peers report new incarnations.
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
			n.log.Debug("request ended because the peer restarted before it answered", "md", u.Handle, "next_hop", u.NextHop)
		}
	}
}
