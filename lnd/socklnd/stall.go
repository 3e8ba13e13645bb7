package socklnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
)

// Stall detection. TCP detects a dead path long before the LND timeout: the peer does not acknowledge bytes,
// and retransmissions fail. The driver then reports a stall to the node, which uses other paths. It does not
// close the connection, because TCP may recover.

// looksPerReap is how many times as often the reaper checks peers with messages in flight as other peers.
const looksPerReap = 4

// restartIf restarts the running timeouts if linkUps of the peer has changed since the last check: a link was
// down and is up again.
func (s *progress) restartIf(linkUps uint32, now time.Time) {
	if s.linkUps == linkUps {
		return
	}
	s.linkUps = linkUps
	if !s.receivedAt.IsZero() {
		s.receivedAt = now
	}
	if !s.ackAt.IsZero() {
		s.ackAt = now
	}
}

// stalledSince returns since when the peer has acknowledged nothing, although TCP is retransmitting. It returns
// the zero time if that is not so, or for less than peering.StallAfter. The stream must have unacknowledged
// bytes.
func (c *conn) stalledSince(now time.Time) time.Time {
	s := &c.progress
	if !now.After(s.movedAt) { // this check has found new acknowledgements
		return time.Time{}
	}
	trying, silent := c.stream.Trying()
	if !trying {
		return time.Time{}
	}
	// silent may also cover time before the bytes in flight were sent. That time does not count.
	since := peering.Earlier(s.movedAt, now.Add(-silent))
	if since.Before(s.idleAt) { // the bytes in flight were sent after idleAt
		since = s.idleAt
	}
	if now.Sub(since) < peering.StallAfter {
		return time.Time{}
	}
	return since
}

// checkStall reports a stall of the peer, or its end, to the node. conns are the connections that were just
// checked. silent is the time when the first of them stalled; it is zero if no connection is stalled.
//
// If all attempts to connect to a stalled peer have failed, it continues to count as stalled for MaxPause, the
// longest pause between attempts. Otherwise it would look better than other stalled peers, and messages that
// wait for those would be resent to it and fail.
func (p *peer) checkStall(now time.Time, conns []*conn, silent time.Time) {
	look := peering.Look{Now: now, Conns: len(conns), Silent: silent, Lapse: p.i.MaxPause}
	for _, c := range conns {
		look.Sent += c.sent.Load() + uint64(c.queuedBytes.Load())
	}
	p.i.CheckStall(p, &look)
}
