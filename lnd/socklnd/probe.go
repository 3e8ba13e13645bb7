package socklnd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// probePatience is how long a peer that is in doubt may be silent. A host that has
// restarted answers for a connection that it does not know with a reset; this is for
// one that does not answer at all.
const probePatience = 2 * time.Second

// doubt is about a peer of which another NID has shown a new life. Incarnations
// belong to NIs, each to one (socklnd 1): whether the life of this NID is over too
// its connections alone can tell.
type doubt struct {
	// asked is the connection that the question was put on, nil: none yet.
	asked           *conn
	since           time.Time
	acked, received uint64 // by then
}

// Probe implements lnd.Interface. Protocols before V3 have nothing to ask with:
// what is in doubt then is left to TCP.
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

// probeDoubted asks those who are in doubt. The reaper calls it: whoever began the
// doubt may be telling of a restart, and so cannot tell of another one.
func (i *Interface) probeDoubted() {
	i.mu.Lock()
	doubted := i.doubted
	i.doubted = nil
	i.mu.Unlock()
	for _, p := range doubted {
		p.ask(time.Now())
	}
}

// ask sends a NOOP, unless there is something on its way that will do.
func (p *peer) ask(now time.Time) {
	c := p.set.Load().forNoop(true)
	var question *doubt
	if c != nil {
		question = &doubt{asked: c, since: now, acked: c.acked(), received: c.received.Load()}
	}
	p.mu.Lock()
	if p.doubt != nil {
		p.doubt = question // nil: they have gone, or are but coming
	}
	p.mu.Unlock()
	if c != nil && c.queuedBytes.Load() == 0 {
		_ = c.acknowledge(protocol.KeepaliveCookie) // if that fails it is on its way out
	}
}

// settleDoubt ends a doubt: by a sign of life, or, when there has been none for too long,
// with the connections.
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

// acked is how many bytes the peer's TCP has acknowledged.
func (c *conn) acked() uint64 {
	sent := c.sent.Load()
	return sent - min(sent, uint64(c.stream.Unacked()))
}

// resolve is what an error on a connection means for a doubt: a life that has reset
// its connections, or says nothing any more, is over. p.mu is held.
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
	if !p.peering.Lives.Presume() {
		return nil, cause
	}
	return p.news(), cause
}
