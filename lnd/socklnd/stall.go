package socklnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
)

// Stall detection. TCP detects a dead path long before the LND timeout: sent bytes are not
// acknowledged, and retransmissions fail. The connection stays open, since TCP may recover. The node is
// notified and uses other paths meanwhile.

// looksPerReap is how much more often the reaper checks peers with messages in flight.
const looksPerReap = 4

// restartIf restarts all running timeouts if the path was interrupted and works again, which linkUps of the
// peer shows.
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

// stalledSince returns since when nothing has been acknowledged although TCP is retransmitting. It
// returns zero if there is no stall, or one shorter than peering.StallAfter. The stream has unacknowledged
// bytes.
func (c *conn) stalledSince(now time.Time) time.Time {
	s := &c.progress
	if !now.After(s.movedAt) { // progress in this check
		return time.Time{}
	}
	trying, silent := c.stream.Trying()
	if !trying {
		return time.Time{}
	}
	// The peer's last acknowledgement may be older than the bytes in flight.
	since := peering.Earlier(s.movedAt, now.Add(-silent))
	if since.Before(s.idleAt) { // those bytes were sent after idleAt
		since = s.idleAt
	}
	if now.Sub(since) < peering.StallAfter {
		return time.Time{}
	}
	return since
}

// checkStall reports to the node whether the peer has stalled. conns are the connections just checked. silent
// is when the first of them stalled, or zero. If all attempts to connect to a stalled peer have failed, it
// counts as stalled until it would be retried at the latest. Otherwise it would look better than other
// stalled peers, and messages that wait for those would be sent here and fail.
func (p *peer) checkStall(now time.Time, conns []*conn, silent time.Time) {
	look := peering.Look{Now: now, Conns: len(conns), Silent: silent, Lapse: p.i.MaxPause}
	for _, c := range conns {
		look.Sent += c.sent.Load() + uint64(c.queuedBytes.Load())
	}
	p.i.CheckStall(p, &look)
}
