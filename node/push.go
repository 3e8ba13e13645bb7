package node

import (
	"fmt"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// Bounds on what is kept of last pushes, since anybody may push: nodes, and
// what their pushes list together.
const (
	pushesKept      = 4096
	pushEntriesKept = 1 << 16
)

// Push is the last ping info that another node pushed (lnet-wire 7.8).
type Push struct {
	// Source is the NID that it came from.
	Source lnet.NID
	// Info is what could be read of it.
	Info lnet.PingInfo
	// Truncated says that it did not fit; the next one of its size will.
	Truncated bool
	// Err is why Info is incomplete or invalid, nil if it is neither.
	Err error
}

// pushTarget takes pushes: one MD for one push, put up again after each.
type pushTarget struct {
	mu   sync.Mutex
	room int // of the next MD
	last map[lnet.NID]Push
	// entries counts what the pushes in last list.
	entries int
	// spare is the memory of the last MD, lacking how many MDs are to be put
	// up. While one is, pushes that wait on the portal may be taken.
	spare   []byte
	lacking int
}

// startPushTarget makes portal 0 ready for pushes.
func (n *Node) startPushTarget() {
	n.push.room = lnet.PingBufferMin
	n.push.last = map[lnet.NID]Push{}
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
	_, accepted, dropped, err := n.table.Attach(
		portals.Entry{Portal: lnet.ReservedPortal, MatchBits: lnet.PingMatchBits, Position: portals.After},
		portals.MD{
			Bytes: b, Threshold: 1, Unlink: true,
			Options: portals.OpPut | portals.Truncate, Handler: portals.HandlerFunc(n.pushed),
		})
	n.settle(accepted, dropped)
	if err != nil {
		n.log.Debug("push target not put up", "err", err) // the node is closing
	}
}

// pushed takes a push. The MD is gone with this event, and a new one is there
// before the ACK leaves.
func (n *Node) pushed(e *portals.Event) {
	if e.Type != portals.EventPut {
		return
	}
	b := e.Bytes
	if e.Err == nil {
		p := Push{Source: e.Source.NID, Truncated: e.Length < e.Requested}
		p.Info, p.Err = lnet.DecodePingInfo(b[:e.Length], n.interfacesMax)
		if p.Truncated && p.Err == nil {
			p.Err = fmt.Errorf("push of %d bytes: room for %d", e.Requested, e.Length)
		}
		if p.Truncated {
			n.push.enlarge(e.Requested)
		}
		n.push.keep(p)
	}
	n.postPush(b)
}

// enlarge makes the next MD hold room bytes at least.
func (t *pushTarget) enlarge(room int) {
	t.mu.Lock()
	t.room = max(t.room, min(room, lnet.MTU))
	t.mu.Unlock()
}

// keep stores a push in place of the last one of its source, and of any others
// when there are too many.
func (t *pushTarget) keep(p Push) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(p.Source)
	for nid := range t.last {
		if len(t.last) < pushesKept && t.entries+p.entries() <= pushEntriesKept {
			break
		}
		t.forget(nid)
	}
	t.last[p.Source] = p
	t.entries += p.entries()
}

// forget drops the last push of a source. t.mu is held.
func (t *pushTarget) forget(source lnet.NID) {
	t.entries -= t.last[source].entries()
	delete(t.last, source)
}

// entries counts what the push lists.
func (p Push) entries() int { return len(p.Info.NIs) + len(p.Info.Metadata) }

// LastPush returns the last push from a NID, if there was one and it is kept.
func (n *Node) LastPush(from lnet.NID) (Push, bool) {
	n.push.mu.Lock()
	defer n.push.mu.Unlock()
	p, ok := n.push.last[from]
	return p, ok
}
