package socklnd

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// Stall detection. TCP detects a dead path long before the LND timeout: sent bytes are not
// acknowledged, and retransmissions fail. The connection stays open, since TCP may recover. The node is
// notified and uses other paths meanwhile.

// looksPerReap is how much more often the reaper checks peers with messages in flight.
const looksPerReap = 4

// restart restarts all running timeouts, because the path was interrupted and works again.
func (s *progress) restart(now time.Time) {
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

// judge reports to the node whether the peer has stalled. conns are the connections just checked. silent
// is when the first of them stalled, or zero. If all attempts to connect to a stalled peer have failed, it
// counts as stalled until it would be retried at the latest. Otherwise it would look better than other
// stalled peers, and messages that wait for those would be sent here and fail.
func (p *peer) judge(now time.Time, conns []*conn, silent time.Time) {
	if p.id.PID != lnet.PIDLustre {
		return
	}
	look := peering.Look{
		Now: now, Conns: len(conns), Silent: silent, Waiting: &p.waiting, Lapse: p.i.driver.config.MaxReconnect,
	}
	for _, c := range conns {
		look.Sent += c.sent.Load() + uint64(c.queuedBytes.Load())
	}
	p.mu.Lock()
	look.Connected, look.Idle = len(p.conns) > 0, p.spent()
	news, since := p.stall.Judge(&look)
	p.mu.Unlock()
	switch news {
	case peering.StallUnchanged:
		return
	case peering.StallBegun:
		p.i.counters.stalls.Add(1)
		p.say(slog.LevelWarn, "peer does not answer", slog.Time("since", since))
	case peering.StallEnded:
		p.say(slog.LevelInfo, "peer answers again")
		for _, c := range conns {
			c.progress.restart(now)
		}
	case peering.StallMore, peering.StallLapsed:
	}
	p.i.upper.PeerStalled(p.id.NID, since)
}
