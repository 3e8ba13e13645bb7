package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// pushesUnread is the number of pushes that may wait until discovery processes them. If
// there are more, the node attaches no MD for further pushes, and these wait on the
// portal.
const pushesUnread = 64

// pushTarget receives pushes from other nodes. It has one MD that accepts one push; after
// each push, a new MD is attached.
type pushTarget struct {
	mu   sync.Mutex  // guards the fields up to missing
	room int         // minimum size of the next MD's memory
	md   lnet.Handle // the attached MD, if missing is 0
	size int         // size of its memory
	// spare is the memory of the previous MD, for reuse, or nil. missing is the number of MDs
	// that are still to be attached. It can exceed 1, because an MD that is being attached
	// may accept a push that waits on the portal.
	spare   []byte
	missing int

	unread atomic.Int32
	idle   atomic.Bool // no MD is attached because too many pushes are unread
}

// startPushTarget makes portal 0 lazy, so that pushes wait there, and attaches the first
// MD for them.
func (n *Node) startPushTarget() {
	n.push.room = lnet.PingBufferMin
	_ = n.table.SetLazy(lnet.ReservedPortal) // the portal is valid
	n.postPush(nil)
}

// postPush attaches an MD for the next push. It uses the memory spare if that is large
// enough. A push that waits on the portal may be accepted immediately, and its handler
// calls postPush again. The nested call leaves the work to the outer one, so that the
// stack does not grow with each push.
func (n *Node) postPush(spare []byte) {
	t := &n.push
	t.mu.Lock()
	t.spare = spare
	t.missing++
	if t.missing > 1 {
		t.mu.Unlock()
		return
	}
	for ; t.missing > 0; t.missing-- {
		b := t.spare
		t.spare = nil
		if len(b) < t.room {
			b = make([]byte, t.room)
		}
		t.mu.Unlock()
		n.setPush(b)
		t.mu.Lock()
	}
	t.mu.Unlock()
}

func (n *Node) setPush(b []byte) {
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
	if small { // a larger size was requested meanwhile
		n.wakeMonitor()
	}
	n.resumeDelayed(accepted, dropped)
	if err != nil {
		n.log.Debug("cannot attach the MD that receives pushes", "err", err) // the node is closing
	}
}

// pushed handles a push. Its MD ends with this event. Unless too many pushes are unread,
// pushed attaches the next MD before the ACK is sent.
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
		if gateway := n.peers.find(e.Sender); c.Err == nil && gateway != nil && n.returnsThrough(gateway, e.Source.NID.Net()) {
			n.mentionedPeer(e.Source.NID, gateway) // only a push creates a peer for a node behind a router
		}
		if n.discoverPush(e, c) {
			return // the monitor attaches the next MD later
		}
	}
	n.postPush(b)
}

// discoverPush passes a push to discovery. It returns true if too many pushes wait there,
// so that no MD must be attached now.
func (n *Node) discoverPush(e *portals.Event, c discovery.Content) (enough bool) {
	t := &n.push
	from, cut, fits := e.Source.NID, e.Err != nil, n.admitInfo(e.Sender, &c.Info)
	h := lnet.Header{Type: e.MsgType, Src: from, Dest: e.Target.NID, Portal: e.Portal, MatchBits: e.MatchBits}
	if enough = t.unread.Add(1) > pushesUnread; enough {
		t.idle.Store(true)
	}
	n.discoverer.post(func(m *discovery.Machine, now time.Duration) {
		switch { // the content of such a push is lost; discovery pings a known peer instead
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

// enlarge makes the MD for pushes at least room bytes large, but at most lnet.MTU. The
// monitor replaces the MD.
func (t *pushTarget) enlarge(n *Node, room int) {
	t.mu.Lock()
	t.room = max(t.room, min(room, lnet.MTU))
	t.mu.Unlock()
	n.wakeMonitor()
}

// replenish attaches an MD for pushes again when enough unread pushes were processed, and
// replaces an MD that is smaller than requested. The monitor calls it.
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
