package node

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// runMonitor is the node's one goroutine: it keeps the coarse clock, and looks
// for responses that are overdue every half transaction timeout, as kernels do
// (lnet-core 6.4, 12.2).
func (n *Node) runMonitor() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	scan := int64(max(n.timeout/2, time.Second))
	next := n.now() + scan
	var mds []*md
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		now := n.now()
		n.second.Store(now/int64(time.Second) + 1)
		if now >= next {
			next = now + scan
			mds = n.expire(now, mds[:0])
			clear(mds)
		}
	}
}

// tracks says whether a request's response is to be watched. d.mu is held.
func (n *Node) tracks(d *md, t lnet.MsgType) bool {
	switch {
	case d.options&NoTrackResponse != 0:
		return false
	case d.options&TrackResponse != 0:
		return true
	case t == lnet.MsgPut:
		return n.tracking&TrackPuts != 0
	default:
		return n.tracking&TrackGets != 0
	}
}

// expire unlinks the MDs whose response is overdue.
func (n *Node) expire(now int64, mds []*md) []*md {
	mds = n.handles.appendAll(mds)
	for _, d := range mds {
		d.mu.Lock()
		overdue := d.deadline != 0 && d.deadline <= now && !d.zombie
		h := d.handle
		d.mu.Unlock()
		if !overdue || n.Unlink(h) != nil {
			continue
		}
		n.stats.responseTimeouts.Add(1)
		n.log.Debug("response overdue", "md", h)
	}
	return mds
}
