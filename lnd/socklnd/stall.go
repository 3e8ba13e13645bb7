package socklnd

import (
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// A path that is dead shows itself by TCP long before the LND timeout: what was
// sent is not acknowledged, and sent again in vain. Nothing is closed for that,
// since TCP may heal it; the node is told, and sends by other ways meanwhile.

const (
	// stallAfter is how long nothing must have been acknowledged: longer than
	// TCP needs for a few losses in a row on any path within a site.
	stallAfter = time.Second
	// looksPerReap is how much more often than others the reaper looks at peers
	// to which something is under way.
	looksPerReap = 4
)

// restart gives everything that is due its full time again: the way was cut, and
// is there again.
func (s *progress) restart(now time.Time) {
	if !s.receivedAt.IsZero() {
		s.receivedAt = now
	}
	if !s.ackAt.IsZero() {
		s.ackAt = now
	}
}

// stalledSince is since when nothing has been acknowledged although TCP tries;
// zero if it does, or for less than stallAfter. Unacked bytes are in the stream.
func (c *conn) stalledSince(now time.Time) time.Time {
	s := &c.progress
	if !now.After(s.movedAt) { // there was progress just now
		return time.Time{}
	}
	trying, silent := c.stream.Trying()
	if !trying {
		return time.Time{}
	}
	// What the peer's stack last said may be older than what waits now.
	since := earlier(s.movedAt, now.Add(-silent))
	if since.Before(s.idleAt) { // since its last look the reaper does not know when it was sent
		since = s.idleAt
	}
	if now.Sub(since) < stallAfter {
		return time.Time{}
	}
	return since
}

// earlier is the earlier one of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// judge tells the node whether the peer answers. conns are those just looked at,
// of which one has stalled since a time, if that is not zero. A peer that has
// stalled stays so until one of its connections works again.
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

// given is a mark of what has been sent to the peer, which is another one when there
// is more: bytes by its connections and who came last of those that wait for one.
type given struct {
	bytes   uint64
	waiting waiting
}

// given returns it. p.mu is held.
func (p *peer) given(conns []*conn) (g given) {
	for _, c := range conns {
		g.bytes += c.sent.Load() + uint64(c.queuedBytes.Load())
	}
	if n := len(p.pending); n > 0 {
		g.waiting = p.pending[n-1]
	}
	return g
}

// rest forgets a peer of which nothing is left. One that has stalled counts as such
// until it would be called again at the latest: that all has failed does not make
// it better than others that do not answer, and what waits for them would come
// here and fail.
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
