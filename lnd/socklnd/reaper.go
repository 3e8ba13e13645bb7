package socklnd

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// minKeepaliveGap is the minimum time between two keepalives to a peer (socklnd 11).
const minKeepaliveGap = 10 * time.Second

// reap is the reaper, a goroutine that checks every peer at least four times within the LND timeout, and closes
// connections and fails messages that have made no progress (socklnd 14). It checks peers with messages in
// flight more often, to detect stalls early. The code that moves messages records no times. Instead, the reaper
// compares counters with those of its last check.
func (i *Interface) reap() {
	defer i.Group.Done()
	timer := time.NewTimer(i.lookInterval())
	defer timer.Stop()
	var peers []*peer // the peers to check at the next tick
	var all time.Time // time of the next check of all peers
	for {
		select {
		case <-i.Context.Done():
			return
		case <-i.doubts:
			i.SettleDoubts(time.Now())
			continue
		case <-timer.C:
		}
		now := time.Now() // not the tick's time, which may be in the past
		every := i.lookInterval()
		if !now.Before(all) {
			peers, all = i.Of(lnet.NID{}), now.Add(every)
		}
		peers = slices.DeleteFunc(peers, func(p *peer) bool { return !p.reap(now) })
		pause := every
		if len(peers) > 0 {
			pause = every / looksPerReap
		}
		timer.Reset(min(pause, time.Until(all)))
	}
}

// wakeReaper makes the reaper call SettleDoubts soon. It implements Setup.Doubted.
func (i *Interface) wakeReaper() {
	select {
	case i.doubts <- struct{}{}:
	default:
	}
}

// lookInterval returns the time until the next check of all peers. It depends on the LND timeout T, which may
// change.
func (i *Interface) lookInterval() time.Duration {
	return min(time.Second, max(i.Timeout()/8, time.Millisecond))
}

// reap checks one peer: it closes connections and fails messages that have timed out, and reports stalls. It
// returns true if messages to the peer are in flight or wait for a connection, so that the peer must be checked
// more often.
func (p *peer) reap(now time.Time) (flight bool) {
	p.expire(now)
	p.i.SettleDoubt(p, now)
	conns := p.established()
	p.Lock()
	flight = p.Waiting.Len() > 0
	if !p.Doubt.Probed() {
		p.probed = probed{}
	}
	p.Unlock()
	var stalled time.Time
	for _, c := range conns {
		alive, err := c.check(now)
		if err != nil {
			p.fail(c, err)
			return true
		}
		if alive {
			p.Lock()
			p.LastAlive = now
			p.Unlock()
		}
		flight = flight || c.progress.flight
		stalled = peering.Earlier(stalled, c.progress.stalled)
	}
	p.checkStall(now, conns, stalled)
	p.i.Forget(p)
	p.keepalive(now)
	return flight
}

// expire fails messages that have waited too long for a connection. If after this no message waits, there is no
// connection, and no attempt of either side is in progress, it reports the peer as lost and stops its opener.
func (p *peer) expire(now time.Time) {
	p.Lock()
	late := p.i.Late(p, now, p.i.Timeout())
	if len(p.conns) == 0 && p.Accepting == 0 && !p.connecting && p.Waiting.Len() == 0 {
		if p.opening {
			p.stopOpener()
		}
		p.i.PutDown(p)
	}
	p.i.Put(late, p.i.Error("send", p.ID.NID, lnd.StatusNetworkTimeout, peering.ErrWaited))
	p.Unlock()
	p.i.Out.Run()
}

// check reports whether the connection has received bytes or acknowledgements since the last check. It returns
// an error if the connection must be closed: it has made no progress for the LND timeout although progress was
// due, or it has ended while its reader waits for a placement.
func (c *conn) check(now time.Time) (alive bool, err error) {
	s, timeout := &c.progress, c.peer.i.Timeout()
	s.restartIf(c.peer.linkUps.Load(), now)

	if c.placing.Load() == placingWait {
		if err := c.ended(); err != nil {
			return false, err
		}
	}

	received := c.received.Load()
	switch {
	case received != s.received:
		s.received, s.receivedAt = received, now
		alive = true
	case !c.partial.Load() || c.placing.Load() == placingWait:
		// No bytes are due from the peer, or this node does not read because it waits for a placement.
		if c.large.Load() && c.placing.Load() != placingWait {
			c.wakeReader() // makes the reader release the large buffer
		}
		s.receivedAt = time.Time{}
	case s.receivedAt.IsZero():
		s.receivedAt = now
	case now.Sub(s.receivedAt) >= timeout:
		c.peer.i.counters.receiveTimeouts.Add(1)
		return false, errReceiveTime
	}

	sent := c.sent.Load()
	known := s.flight
	s.flight, s.stalled = false, time.Time{}
	if s.acked == sent && c.queuedBytes.Load() == 0 {
		s.ackAt, s.idleAt = time.Time{}, now
		return alive, nil
	}
	acked := c.acked()
	s.flight = acked != sent
	switch {
	case acked != s.acked:
		s.acked, s.ackAt, s.movedAt = acked, now, now
		alive = true
	case s.ackAt.IsZero():
		s.ackAt, s.movedAt = now, now
	case now.Sub(s.ackAt) >= timeout:
		c.peer.i.counters.sendTimeouts.Add(1)
		return false, errSendTime
	}
	if !known || !s.flight {
		s.idleAt = now
	}
	if s.flight {
		s.stalled = c.stalledSince(now)
	}
	return alive, nil
}

// ended returns an error if the stream of a connection has ended whose reader waits for a placement. Such a
// reader does not read and so does not notice the end. ended returns nil if the stream has not ended.
//
// Messages that the peer sent before the end may be complete in the socket, and a kernel would read them after
// the placement. We count them as lost with the connection, because a working LNet peer never closes only one
// direction. It is shutting down, and a message that waits for it might wait forever.
//
// If more bytes than our receive window holds precede the end, the end cannot arrive. Then the stream ends with
// the peer's reset, which answers a TCP keepalive or a NOOP.
func (c *conn) ended() error {
	err := c.stream.Ended()
	if errors.Is(err, io.EOF) {
		return errEOF // not errTruncated: only reading would show whether the stream ended within a message
	}
	return err
}

// keepalive sends a NOOP to a peer that has been silent for Config.Keepalive. If the peer's host does not
// acknowledge it, TCP ends the connection (socklnd 11).
func (p *peer) keepalive(now time.Time) {
	every := p.i.driver.config.Keepalive
	if every <= 0 || p.unprivileged() {
		return
	}
	p.Lock()
	due := len(p.conns) > 0 && now.Sub(p.LastAlive) >= every && now.Sub(p.lastPing) >= minKeepaliveGap
	p.Unlock()
	if !due {
		return
	}
	s := p.set.Load()
	if s.version < protocol.V3 {
		return
	}
	c := s.forNoop(true)
	if c == nil || c.queuedBytes.Load() > 0 {
		return
	}
	p.Lock()
	p.lastPing = now
	p.Unlock()
	p.i.counters.keepalives.Add(1)
	_ = c.acknowledge(protocol.KeepaliveCookie) // cannot fail: the connection has an empty queue
}
