package socklnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// probed is the state of the connection that a peer was probed on, at that time.
type probed struct {
	c               *conn
	acked, received uint64
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
	if p.peering.Version >= protocol.V3 && p.doubt.Begin() {
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
	p.mu.Lock()
	if c == nil { // the connections are gone or not established yet
		p.doubt.End()
	}
	ask := p.doubt.Ask(now)
	p.mu.Unlock()
	if !ask {
		return
	}
	p.probed = probed{c, c.acked(), c.received.Load()}
	if c.queuedBytes.Load() == 0 {
		_ = c.acknowledge(protocol.KeepaliveCookie) // a failure ends the connection anyway
	}
}

// settleDoubt ends a doubt after a sign of life. If the peer stays silent for too long, it
// closes the connections.
func (p *peer) settleDoubt(now time.Time) {
	p.mu.Lock()
	asked := p.doubt.Asked()
	p.mu.Unlock()
	if !asked {
		p.probed = probed{}
		return
	}
	c := p.probed.c
	alive := c.acked() > p.probed.acked || c.received.Load() > p.probed.received
	p.mu.Lock()
	silent := p.doubt.Judge(now, alive)
	p.mu.Unlock()
	if silent {
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
	if !p.doubt.End() {
		return nil, cause
	}
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
