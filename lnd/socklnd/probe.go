package socklnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// probed is the connection on which a peer in doubt was probed, with its byte counts at that time. If one of
// the counts grows, the peer has answered.
type probed struct {
	c               *conn
	acked, received uint64
}

// Probe implements peering.Member. It sends a NOOP, which the peer's TCP has to acknowledge, unless queued
// messages have the same effect. It returns false with protocol versions before V3, which have no suitable
// NOOP; a restart is then noticed only when TCP reports it.
func (p *peer) Probe(time.Time) bool {
	s := p.set.Load()
	c := s.forNoop(true)
	if c == nil || s.version < protocol.V3 { // c is nil if no connection carries messages
		return false
	}
	p.probed = probed{c, c.acked(), c.received.Load()}
	if c.queuedBytes.Load() == 0 {
		_ = c.acknowledge(protocol.KeepaliveCookie) // a failure ends the connection anyway
	}
	return true
}

// Answered implements peering.Member. It does not count acknowledgements on a stream that has ended: such a
// stream reports no unacknowledged bytes, although the peer may not have acknowledged them.
func (p *peer) Answered() bool {
	c := p.probed.c
	return c.stream.Ended() == nil && (c.acked() > p.probed.acked || c.received.Load() > p.probed.received)
}

// CloseStale implements peering.Member.
func (p *peer) CloseStale() { p.fail(p.probed.c, peering.ErrStale) }

// acked returns how many of the sent bytes the peer's TCP has acknowledged.
func (c *conn) acked() uint64 {
	sent := c.sent.Load()
	return sent - min(sent, uint64(c.stream.Unacked()))
}

// resolve is called when a connection has ended because of cause, and ends the peer's doubt. If the peer was in
// doubt, and the connection was reset or its peer is silent, the peer's incarnation has ended: resolve queues
// the report of the restart and adds ErrStale to the cause. It returns the cause. p is locked.
func (p *peer) resolve(cause error) error {
	stale := errors.Is(cause, peering.ErrStale)
	gone := stale || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ETIMEDOUT)
	if p.i.AssumeRestarted(p, gone) && gone && !stale {
		cause = fmt.Errorf("%w: %w", peering.ErrStale, cause)
	}
	return cause
}
