package uplnd

import (
	"errors"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/shared"
)

const (
	// batch is the number of reports that are read before their places in the ring are released.
	batch = 64
	// maxPeers is the maximum number of peers of a proxy that are remembered.
	maxPeers = 1 << 16
)

// read handles the proxy's reports until it is detached. It returns why the proxy must be detached. If the proxy
// has left, read also handles the reports that are in the ring.
func (p *proxyEnd) read() error {
	reports := &p.ring.Submissions
	var e protocol.Entry
	for left := p.ni.server.config.Entries; ; {
		n := 0
		cause := p.detached()
		if cause != nil && (!errors.Is(cause, errGone) || left <= 0) {
			return cause // although the proxy may go on reporting
		}
		for ; n < batch; n++ {
			if more, err := p.next(&e); err != nil {
				return err
			} else if !more {
				break
			}
			if err := p.handle(&e); err != nil {
				return err
			}
		}
		if fault := memory.Guard(reports.Release); fault != nil {
			return violation("a page of the ring is missing: %w", fault)
		}
		p.flush()
		switch {
		case cause != nil && n == 0:
			return cause
		case cause != nil:
			left -= n
			continue
		case n > 0:
			continue
		}
		var err error
		if fault := memory.Guard(func() { err = reports.WaitWakeup() }); fault != nil {
			return violation("a page of the ring is missing: %w", fault)
		} else if err != nil && !errors.Is(err, shared.ErrShut) { // after ErrShut, detached returns the cause
			return err
		}
	}
}

// next reads the next report.
func (p *proxyEnd) next(e *protocol.Entry) (more bool, err error) {
	if fault := memory.Guard(func() { more, err = p.ring.Submissions.Read(p.entry[:]) }); fault != nil {
		return false, violation("a page of the ring is missing: %w", fault)
	}
	if err != nil {
		return false, violation("%w", err)
	}
	if more {
		if err := e.DecodeReport(&p.entry); err != nil {
			return false, violation("%w", err)
		}
	}
	return more, nil
}

// handle handles a report. An error is a violation of the protocol.
func (p *proxyEnd) handle(e *protocol.Entry) error {
	switch e.Op {
	case protocol.Sent:
		return p.sent(e)
	case protocol.Arrived:
		return p.arrived(e)
	case protocol.Payload:
		return p.payloadCame(e)
	case protocol.Withdrawn:
		return p.withdrawn(e)
	case protocol.PeerDown, protocol.Lost, protocol.Restarted, protocol.Stalled:
		return p.peerChanged(e)
	case protocol.Link:
		p.ready.Store(e.Up)
		p.ni.checkLink()
	case protocol.AllocatePID:
		pid, cause := p.ni.allocatePID(p)
		p.order(&protocol.Entry{Op: protocol.PID, Peer: lnet.ProcessID{PID: pid}, Cause: cause})
	case protocol.RegisterPID:
		p.order(&protocol.Entry{Op: protocol.PID, Peer: lnet.ProcessID{PID: e.Peer.PID}, Cause: p.ni.registerPID(p, e.Peer.PID)})
	}
	return nil
}

// peerChanged passes news about a peer to the node.
func (p *proxyEnd) peerChanged(e *protocol.Entry) error {
	nid := e.Peer.NID
	if !p.serves(nid) {
		return violation("%s of %s, which is not a peer on net %s", e.Op, nid, p.ni.config.Net)
	}
	upper := p.ni.config.Upper
	switch e.Op {
	case protocol.PeerDown:
		if e.Status == lnd.StatusOK {
			return violation("%s of %s without a status", e.Op, nid)
		}
		p.forgetPeer(nid)
		upper.PeerDown(lnd.PeerDown{Peer: nid, LastAlive: p.time(e.Time), Err: failure("connect", nid, e.Status, e.Cause.Err(e.Text))})
	case protocol.Lost:
		upper.ConnectionsLost(nid)
	case protocol.Restarted:
		upper.PeerRestarted(nid)
	case protocol.Stalled:
		p.ni.stalls.Lock()
		defer p.ni.stalls.Unlock()
		upper.PeerStalled(nid, p.time(e.Time))
	}
	return nil
}

// time returns the time for nanoseconds of CLOCK_MONOTONIC, or the zero time for 0.
func (p *proxyEnd) time(ns uint64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return p.ni.server.clock.Time(int64(ns))
}

// notePeer remembers that a node was reached. p.mu is held.
func (p *proxyEnd) notePeer(id lnet.ProcessID) {
	if id.PID == lnet.PIDLustre && len(p.peers) < maxPeers {
		p.peers[id.NID] = struct{}{}
	}
}

// knows reports whether a peer was reached through the proxy.
func (p *proxyEnd) knows(nid lnet.NID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.peers[nid]
	return known
}

func (p *proxyEnd) forgetPeer(nid lnet.NID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, nid)
}

// probe makes the proxy check its connections with a peer. It returns false if lnetd has seen no message of the
// peer through this proxy.
func (p *proxyEnd) probe(peer lnet.NID) bool {
	p.mu.Lock()
	_, known := p.peers[peer]
	if known {
		p.put(&protocol.Entry{Op: protocol.Probe, Peer: lnet.ProcessID{NID: peer}})
	}
	p.unlock()
	return known
}
