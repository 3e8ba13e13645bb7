package socklnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// probed is the state of the connection that a peer was probed on, at that time.
type probed struct {
	c               *conn
	acked, received uint64
}

// Probe implements peering.Member. It sends a NOOP, unless queued data serves the purpose. Protocol versions
// before V3 cannot probe; TCP has to detect the restart then.
func (p *peer) Probe(time.Time) bool {
	s := p.set.Load()
	c := s.forNoop(true)
	if c == nil || s.version < protocol.V3 { // c is nil if the connections are gone or not established yet
		return false
	}
	p.probed = probed{c, c.acked(), c.received.Load()}
	if c.queuedBytes.Load() == 0 {
		_ = c.acknowledge(protocol.KeepaliveCookie) // a failure ends the connection anyway
	}
	return true
}

// Answered implements peering.Member. A stream that has ended has no unacknowledged bytes, which shows nothing.
func (p *peer) Answered() bool {
	c := p.probed.c
	return c.stream.Ended() == nil && (c.acked() > p.probed.acked || c.received.Load() > p.probed.received)
}

// CloseStale implements peering.Member.
func (p *peer) CloseStale() { p.fail(p.probed.c, peering.ErrStale) }

// acked returns how many bytes the peer's TCP has acknowledged.
func (c *conn) acked() uint64 {
	sent := c.sent.Load()
	return sent - min(sent, uint64(c.stream.Unacked()))
}

// resolve interprets an error on a connection of a peer: if the peer is in doubt, and the connection was reset
// or is silent, the peer's incarnation has ended. It returns the cause. p is locked.
func (p *peer) resolve(cause error) error {
	stale := errors.Is(cause, peering.ErrStale)
	gone := stale || errors.Is(cause, syscall.ECONNRESET) || errors.Is(cause, syscall.EPIPE) || errors.Is(cause, syscall.ETIMEDOUT)
	if p.i.AssumeRestarted(p, gone) && gone && !stale {
		cause = fmt.Errorf("%w: %w", peering.ErrStale, cause)
	}
	return cause
}
