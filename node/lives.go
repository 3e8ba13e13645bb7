package node

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// overLives are lives of peers that have ended, whose unanswered requests the
// monitor has not looked for yet.
type overLives struct {
	// epoch counts the ends of lives. A request notes it when it has left: what left
	// before an end has gone to the life that ended, since a driver uses no
	// connection of the next one before it has told (lnd.Upper).
	epoch atomic.Uint64

	mu     sync.Mutex // guards lives and looked, and the steps of epoch
	lives  []portals.Departure
	looked int64 // the second of the last look
}

// departure is how m, a request that has left, did; the zero value unless it went
// to its target directly: a router's life is not its target's.
func (m *message) departure() portals.Departure {
	h := &m.tx.Header
	if m.ni == nil || m.tx.To.NID != h.Dest {
		return portals.Departure{}
	}
	return portals.Departure{From: m.ni.NID, To: h.Dest, Epoch: m.node.over.epoch.Load()}
}

// lifeOver notes that what has left i for nid so far will not be answered.
func (n *Node) lifeOver(i *ni, nid lnet.NID) {
	o := &n.over
	o.mu.Lock()
	life := portals.Departure{From: i.NID, To: nid, Epoch: o.epoch.Add(1)}
	k := slices.IndexFunc(o.lives, func(l portals.Departure) bool { return l.From == life.From && l.To == life.To })
	if k >= 0 {
		o.lives[k] = life
	} else {
		o.lives = append(o.lives, life)
	}
	o.mu.Unlock()
	n.wakeMonitor()
}

// doubtOthers has the drivers look after the other connections with a peer one of
// whose NIDs has begun a new life, as i was told: all its NIDs, as discovery knows
// them, by all our NIs. A peer may have taken one NI away and back, and a HELLO may
// lie; so each connection is asked, and none is closed because of hearsay.
func (n *Node) doubtOthers(i *ni, nid lnet.NID) {
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
			if !j.iface.Probe(other) { // what left by a connection that has gone
				n.lifeOver(j, other)
			}
		}
	}
}

// endUnanswered ends the requests that went to lives which are over, with
// ErrRestarted. Whoever says again and again that it has begun a new life does not
// make the monitor look more often than once a second.
func (n *Node) endUnanswered(second int64) {
	o := &n.over
	o.mu.Lock()
	if len(o.lives) == 0 || o.looked == second {
		o.mu.Unlock()
		return
	}
	lives := o.lives
	o.lives, o.looked = nil, second
	o.mu.Unlock()
	for _, u := range n.table.AppendUnanswered(nil, lives) {
		if n.table.UnlinkUnanswered(u.Handle, lives, ErrRestarted) == nil {
			n.log.Debug("the peer that was asked has restarted", "md", u.Handle, "hop", u.Hop)
		}
	}
}
