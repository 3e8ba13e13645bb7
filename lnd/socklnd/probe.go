package socklnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// probePatience is how long a peer in doubt may be silent. A restarted host answers segments of an
// unknown connection with a reset; this limit is for hosts that do not answer at all.
const probePatience = 2 * time.Second

// doubt is set on a peer if another of its NIDs announced a newer incarnation. Each NI has its own
// incarnation (socklnd 1), so only the connections of this NID can show whether its incarnation has
// ended too.
type doubt struct {
	// asked is the connection on which the probe was sent. It is nil before that.
	asked           *conn
	since           time.Time
	acked, received uint64 // counts at the time of the probe
}

// Probe implements lnd.Interface. Protocol versions before V3 cannot probe; TCP has to detect the
// restart then.
func (i *Interface) Probe(nid lnet.NID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.peers[lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}]
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) == 0 {
		return false
	}
	if p.doubt == nil && p.peering.Version >= protocol.V3 {
		p.doubt = new(doubt)
		i.doubted = append(i.doubted, p)
		select {
		case i.doubts <- struct{}{}:
		default:
		}
	}
	return true
}

// probeDoubted probes the peers in doubt. The reaper calls it, because the goroutine that called Probe
// may be in the middle of reporting a restart and could not report another one.
func (i *Interface) probeDoubted() {
	i.mu.Lock()
	doubted := i.doubted
	i.doubted = nil
	i.mu.Unlock()
	for _, p := range doubted {
		p.ask(time.Now())
	}
}

// ask sends a NOOP, unless queued data serves the purpose.
func (p *peer) ask(now time.Time) {
	c := p.set.Load().forNoop(true)
	var question *doubt
	if c != nil {
		question = &doubt{asked: c, since: now, acked: c.acked(), received: c.received.Load()}
	}
	p.mu.Lock()
	if p.doubt != nil {
		p.doubt = question // nil if the connections are gone or not established yet
	}
	p.mu.Unlock()
	if c != nil && c.queuedBytes.Load() == 0 {
		_ = c.acknowledge(protocol.KeepaliveCookie) // a failure ends the connection anyway
	}
}

// settleDoubt ends a doubt after a sign of life. If the peer stays silent for too long, it
// closes the connections.
func (p *peer) settleDoubt(now time.Time) {
	p.mu.Lock()
	d := p.doubt
	p.mu.Unlock()
	if d == nil || d.asked == nil {
		return
	}
	c := d.asked
	alive := c.acked() > d.acked || c.received.Load() > d.received
	switch {
	case alive:
		p.mu.Lock()
		if p.doubt == d {
			p.doubt = nil
		}
		p.mu.Unlock()
	case now.Sub(d.since) >= probePatience:
		p.fail(c, errStale)
	}
}

// acked returns how many bytes the peer's TCP has acknowledged.
func (c *conn) acked() uint64 {
	sent := c.sent.Load()
	return sent - min(sent, uint64(c.stream.Unacked()))
}

// resolve interprets an error on a connection of a peer in doubt: if the connection was reset or is
// silent, the peer's incarnation has ended. It returns the restart to report, if any, and the cause.
// p.mu is held.
func (p *peer) resolve(cause error) (*restart, error) {
	if p.doubt == nil {
		return nil, cause
	}
	p.doubt = nil
	switch {
	case errors.Is(cause, errStale):
	case errors.Is(cause, syscall.ECONNRESET), errors.Is(cause, syscall.EPIPE), errors.Is(cause, syscall.ETIMEDOUT):
		cause = fmt.Errorf("%w: %w", errStale, cause)
	default:
		return nil, cause
	}
	if !p.record.Incarnations.Presume() {
		return nil, cause
	}
	return p.news(), cause
}
