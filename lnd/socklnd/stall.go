package socklnd

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Stall detection. TCP detects a dead path long before the LND timeout: sent bytes are not
// acknowledged, and retransmissions fail. The connection stays open, since TCP may recover. The node is
// notified and uses other paths meanwhile.

const (
	// stallAfter is how long nothing must have been acknowledged. It is longer than TCP needs for a few
	// losses in a row on any path within a site.
	stallAfter = time.Second
	// looksPerReap is how much more often the reaper checks peers with messages in flight.
	looksPerReap = 4
)

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
// returns zero if there is no stall, or one shorter than stallAfter. The stream has unacknowledged
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
	since := earlier(s.movedAt, now.Add(-silent))
	if since.Before(s.idleAt) { // those bytes were sent after idleAt
		since = s.idleAt
	}
	if now.Sub(since) < stallAfter {
		return time.Time{}
	}
	return since
}

// earlier returns the earlier of two times. A zero time is ignored.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// judge reports to the node whether the peer has stalled. conns are the connections just checked. since
// is when the first of them stalled, or zero. A peer stays stalled until one of its connections works
// again.
func (p *peer) judge(now time.Time, conns []*conn, since time.Time) {
	if p.id.PID != lnet.PIDLustre {
		return
	}
	p.mu.Lock()
	if len(p.conns) == 0 && len(p.pending) > 0 && now.Sub(p.pending[0].since) >= stallAfter {
		since = earlier(since, p.pending[0].since)
	}
	before := p.stalledSince
	switch {
	case !since.IsZero():
		p.stalledSince = earlier(before, since)
	case len(conns) > 0:
		p.stalledSince = time.Time{}
	}
	stalled := p.stalledSince
	given := p.given(conns)
	p.mu.Unlock()
	switch {
	case !stalled.IsZero():
		if before.IsZero() {
			p.i.counters.stalls.Add(1)
			p.say(slog.LevelWarn, "peer does not answer", slog.Time("since", stalled))
		}
		if before.IsZero() || given != p.stalledWith {
			p.stalledWith = given
			p.i.upper.PeerStalled(p.id.NID, stalled)
		}
	case !before.IsZero():
		p.say(slog.LevelInfo, "peer answers again")
		for _, c := range conns {
			c.progress.restart(now)
		}
		p.i.upper.PeerStalled(p.id.NID, time.Time{})
	}
}

// given is a fingerprint of what has been sent to the peer: the number of bytes on its connections, and
// the last message that waits for a connection. It changes when more is sent.
type given struct {
	bytes   uint64
	waiting waiting
}

// given returns the current fingerprint. p.mu is held.
func (p *peer) given(conns []*conn) (g given) {
	for _, c := range conns {
		g.bytes += c.sent.Load() + uint64(c.queuedBytes.Load())
	}
	if n := len(p.pending); n > 0 {
		g.waiting = p.pending[n-1]
	}
	return g
}

// rest removes a peer that is spent. A stalled peer is kept until it would be retried at the latest.
// Otherwise a peer whose attempts have all failed would look better than stalled ones, and messages
// that wait for those would be sent here and fail.
func (p *peer) rest(now time.Time) {
	if p.spentAt.IsZero() {
		p.spentAt = now
	}
	p.mu.Lock()
	stalled := !p.stalledSince.IsZero()
	if stalled && now.Sub(p.spentAt) < p.i.driver.config.MaxReconnect {
		p.mu.Unlock()
		return
	}
	p.stalledSince = time.Time{}
	p.mu.Unlock()
	if stalled {
		p.i.upper.PeerStalled(p.id.NID, time.Time{})
	}
	p.i.forget(p)
}
