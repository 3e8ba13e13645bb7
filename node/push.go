package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// pushesUnread is how many pushes may wait to be looked at; then no memory is put
// up for more, and they wait on the portal.
const pushesUnread = 64

// pushTarget takes pushes: one MD for one push, put up again after each.
type pushTarget struct {
	mu   sync.Mutex  // guards room to lacking
	room int         // of the next MD
	md   lnet.Handle // that is up, if none is lacking
	size int         // of its memory
	// spare is the memory of the last MD, lacking how many MDs are to be put
	// up. While one is, pushes that wait on the portal may be taken.
	spare   []byte
	lacking int

	unread atomic.Int32
	idle   atomic.Bool // no MD is up, as too many pushes are unread
}

// startPushTarget makes portal 0 ready for pushes.
func (n *Node) startPushTarget() {
	n.push.room = lnet.PingBufferMin
	_ = n.table.SetLazy(lnet.ReservedPortal) // there is such a portal
	n.postPush(nil)
}

// postPush puts up memory for the next push: spare, if it is large enough. A
// waiting push may be taken at once, whose handler comes here again: it leaves
// the work to us, so that the stack does not grow by each.
func (n *Node) postPush(spare []byte) {
	t := &n.push
	t.mu.Lock()
	t.spare = spare
	t.lacking++
	if t.lacking > 1 {
		t.mu.Unlock()
		return
	}
	for ; t.lacking > 0; t.lacking-- {
		b := t.spare
		t.spare = nil
		if len(b) < t.room {
			b = make([]byte, t.room)
		}
		t.mu.Unlock()
		n.putUpPush(b)
		t.mu.Lock()
	}
	t.mu.Unlock()
}

func (n *Node) putUpPush(b []byte) {
	h, accepted, dropped, err := n.table.Attach(
		portals.Entry{Portal: lnet.ReservedPortal, MatchBits: lnet.PingMatchBits, Position: portals.After},
		portals.MD{
			Bytes: b, Threshold: 1, Unlink: true,
			Options: portals.OpPut | portals.Truncate, Handler: portals.HandlerFunc(n.pushed),
		})
	t := &n.push
	t.mu.Lock()
	t.md, t.size = h, len(b)
	small := t.size < t.room
	t.mu.Unlock()
	if small { // more was asked for meanwhile
		n.wakeMonitor()
	}
	n.resumeDelayed(accepted, dropped)
	if err != nil {
		n.log.Debug("push target not put up", "err", err) // the node is closing
	}
}

// pushed takes a push. The MD is gone with this event, and a new one is there
// before the ACK leaves, unless there is too much to read.
func (n *Node) pushed(e *portals.Event) {
	b := e.Bytes
	if e.Type == portals.EventPut {
		c := discovery.Content{Err: e.Err}
		if e.Err == nil {
			c = n.readInfo(b[:e.Length], e.Length < e.Requested, e.Source.NID)
			if c.Cut {
				c.Size = max(c.Size, e.Requested)
			}
		}
		if gateway := n.peers.find(e.Sender); c.Err == nil && gateway != nil && n.leadsBack(gateway, e.Source.NID.Net()) {
			n.hearOf(e.Source.NID, gateway) // nothing else makes a peer of who is behind a router
		}
		if n.hearPush(e, c) {
			return // the monitor puts up another one
		}
	}
	n.postPush(b)
}

// hearPush hands a push to discovery, and tells whether enough of them wait there.
func (n *Node) hearPush(e *portals.Event, c discovery.Content) (enough bool) {
	t := &n.push
	from, cut, fits := e.Source.NID, e.Err != nil, n.admitInfo(e.Sender, &c.Info)
	h := lnet.Header{Type: e.MsgType, Src: from, Dest: e.Target.NID, Portal: e.Portal, MatchBits: e.MatchBits}
	if enough = t.unread.Add(1) > pushesUnread; enough {
		t.idle.Store(true)
	}
	n.discoverer.post(func(m *discovery.Machine, now time.Duration) {
		switch { // of a peer that is known, what is lost is asked for
		case cut:
			n.dropped(DropConnection, nil, nil, &h)
		case c.Err != nil:
			n.dropped(DropMalformed, nil, nil, &h)
		case m.Find(from) == nil:
			n.dropped(DropUnknownPeer, nil, nil, &h)
		case !fits:
			n.dropped(DropPeerBound, nil, nil, &h)
		}
		if fits {
			m.PushReceived(now, from, c)
		} else {
			m.Missed(now, from)
		}
		if t.unread.Add(-1) < pushesUnread/2 && t.idle.Load() {
			n.wakeMonitor()
		}
	})
	return enough
}

// enlarge makes the MD hold room bytes at least.
func (t *pushTarget) enlarge(n *Node, room int) {
	t.mu.Lock()
	t.room = max(t.room, min(room, lnet.MTU))
	t.mu.Unlock()
	n.wakeMonitor()
}

// replenish puts up memory again when enough has been read, and larger memory when
// that was asked for. The monitor calls it.
func (t *pushTarget) replenish(n *Node) {
	if t.unread.Load() < pushesUnread/2 && t.idle.Swap(false) {
		n.postPush(nil)
	}
	t.mu.Lock()
	md, small := t.md, t.size < t.room
	t.mu.Unlock()
	if small {
		_ = n.table.Unlink(md) // not found: the next one is larger
	}
}
