package discovery

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Reply is the reply to a ping.
type Reply struct {
	// To is the local NID that received the reply. From is the peer's NID that sent it.
	To, From lnet.NID
	// Content is the decoded ping info.
	Content Content
}

// PingReply reports the reply to a ping to the Machine (discovery 6.7).
func (m *Machine) PingReply(now time.Duration, id RequestID, r Reply) {
	m.beginEvent(now)
	if p := m.requests[id]; p != nil && p.work.ping == id {
		m.finishRequest(id)
		p.work.source, p.work.destination = r.To, r.From
		m.replied(p, &r.Content)
		m.handleLateEvent(p)
	}
	m.endEvent()
}

func (m *Machine) replied(p *peer, c *Content) {
	w := p.work
	if c.Err != nil || m.fromOtherNode(p, c) {
		m.countFailure(p, true)
		w.pingErr = nil
		m.set(p, PingFailed)
		return
	}
	if c.Info.Features&lnet.FeatDiscovery == 0 || m.local.Mode.passive() {
		m.discoveryOff(p, Discovered|MultiRail)
	} else {
		m.clear(p, NoDiscovery)
	}
	m.learnMultiRail(p, c)
	p.dataSize = max(p.dataSize, int32(min(c.Size, lnet.MTU)))
	if c.Short {
		m.enlargePushRoom(c.Size)
		w.pingErr = nil
		m.set(p, PingFailed)
		return
	}
	if P, ok := c.Info.Primary(); ok && P == p.primary && c.Info.Features&lnet.FeatMultiRail != 0 {
		m.recordSeq(p, c.Info.Seq)
	}
	w.alsoPing = lnet.NID{}
	c.pingTime = w.pingedAt
	p.endDoubt(c.pingTime)
	c.digest()
	if p.hasNewest && (c.Info.Seq < p.newestSeq || c.hash != p.newestDigest) {
		m.repingInDoubt(p)
	}
	m.recordNewest(p, c)
	w.data = c
	m.set(p, DataPresent)
}

// fromOtherNode reports whether a reply lists no NID of the gateway p, and therefore comes
// from another node. That node answers a ping of an earlier incarnation of this node,
// which had the same handle. For a gateway such a reply must be ignored, because it would
// lose its NIDs and with them the routes. For other peers, a later reply corrects the
// error.
func (m *Machine) fromOtherNode(p *peer, c *Content) bool {
	return p.routes > 0 && !c.Short && !slices.ContainsFunc(p.nis, func(i *ni) bool { return c.lists(i.nid) })
}

// PushReceived reports a push from a NID to the Machine (discovery 6.7). The node must
// send the ACK and attach a new MD for pushes, whatever the content is. A push from a NID
// that belongs to no peer is ignored.
func (m *Machine) PushReceived(now time.Duration, from lnet.NID, c Content) {
	m.beginEvent(now)
	m.figures.PushesReceived++
	if i := m.nis[from]; i != nil && !m.stopped {
		p := i.peer
		m.pushed(p, &c)
		if !m.upToDate(p) || p.state.Has(DataPresent|MarkDeletion) {
			if p.queued || p.work != nil && p.work.merge != nil { // other peers come first, because p already had a step
				m.enqueue(p)
			} else {
				m.enqueueFront(p)
			}
		}
	}
	m.endEvent()
}

func (m *Machine) pushed(p *peer, c *Content) {
	if c.Err != nil {
		m.clear(p, NIDsUpToDate)
		m.markInDoubt(p)
		return
	}
	p.dataSize = max(p.dataSize, int32(min(c.Size, lnet.MTU)))
	if c.Info.Features&lnet.FeatMultiRail == 0 {
		m.warn(p, "ignoring a push from a peer that is not Multi-Rail", lnet.NID{}, nil)
		return
	}
	switch {
	case c.Info.Features&lnet.FeatDiscovery != 0:
		m.clear(p, NoDiscovery)
	case p.state.Has(Discovering):
		m.set(p, NoDiscovery)
	default:
		m.discoveryOff(p, Discovered)
	}
	m.learnMultiRail(p, c)
	if c.Short || c.Cut {
		m.enlargePushRoom(c.Size)
		m.clear(p, NIDsUpToDate)
		m.markInDoubt(p)
		return
	}
	m.recordSeq(p, c.Info.Seq)
	m.clear(p, NIDsUpToDate)
	c.digest()
	m.checkContradiction(p, c)
	// Of two pushes with the same sequence number, the newer one is kept. Kernels keep the
	// older one, and so miss a change of status that keeps the number.
	if w := p.startWork(); w.data == nil || c.Info.Seq >= w.data.Info.Seq {
		w.data = c
		m.set(p, DataPresent)
	}
}

// discoveryOff records that discovery is off on this node or on the peer. If the peer has
// one of the flags in learned, it may have NIDs that discovery has added and that can no
// longer be verified. The peer must then be removed (discovery 6.9), unless it was
// configured (quirk of discovery 6.9).
func (m *Machine) discoveryOff(p *peer, learned State) {
	if p.state.Has(learned) && !p.state.Has(Configured|NoDiscovery) {
		if m.local.Mode == Verify {
			m.warn(p, "peer has switched discovery off", lnet.NID{}, nil)
		} else {
			m.set(p, MarkDeletion)
		}
	}
	m.set(p, NoDiscovery)
}

// learnMultiRail updates the Multi-Rail flag of the peer from its ping info: step 5 for a
// ping reply, and step 6 for a push.
func (m *Machine) learnMultiRail(p *peer, c *Content) {
	is, says := p.state.Has(MultiRail), c.Info.Features&lnet.FeatMultiRail != 0
	switch {
	case is == says:
	case p.state.Has(Configured) && says:
		m.warn(p, "peer is configured as not Multi-Rail, but reports that it is; the configuration applies", lnet.NID{}, nil)
	case p.state.Has(Configured):
		m.warn(p, "peer is configured as Multi-Rail, but reports that it is not; the configuration applies", lnet.NID{}, nil)
	case m.local.Mode == Verify || says && (m.local.Mode.passive() || p.state.Has(NoDiscovery)):
	case says:
		// The router flag must be up to date from now on, and not only after the merge.
		m.learnRouter(p, c)
		m.becomeMultiRail(p)
	default:
		m.warn(p, "peer is no longer Multi-Rail", lnet.NID{}, nil)
		m.clear(p, MultiRail)
	}
}

// learnRouter records whether the peer is a router, according to its ping info.
func (m *Machine) learnRouter(p *peer, c *Content) {
	if c.Info.Features&lnet.FeatRoutingDisabled != 0 {
		m.clear(p, RouterEnabled)
	} else {
		m.set(p, RouterEnabled)
	}
}

// enlargePushRoom increases the buffer size for pushes to size, if it is smaller, but not
// above lnet.MTU.
func (m *Machine) enlargePushRoom(size int) {
	if size = min(size, lnet.MTU); size > m.pushRoom {
		m.pushRoom = size
		m.emit(EnlargePush{size})
	}
}

// recordSeq records the sequence number that a peer sent. A lower number than before is
// accepted: the peer may have restarted, and then needs the local ping info again.
func (m *Machine) recordSeq(p *peer, seq uint32) {
	if seq == p.seq {
		return
	}
	if seq < p.seq {
		m.emit(Log{Peer: p.primary, Text: "sequence number of the peer decreased; it may have restarted"})
		m.peerRestarted(p)
	}
	p.seq = seq
	m.changed(p)
}

// peerRestarted records that the peer has restarted, so that it must be sent the local
// ping info again.
func (m *Machine) peerRestarted(p *peer) {
	m.clock++
	p.restartedAt = m.clock
	m.discardPushes(p)
}

// discardPushes makes earlier pushes to the peer count as not received, including the one
// under way.
func (m *Machine) discardPushes(p *peer) {
	if p.ackedSeq != 0 {
		p.ackedSeq = 0
		m.changed(p)
	}
	if p.work != nil {
		p.work.pushVoid = true
	}
}

// recordNewest records the number and hash of the data c if it has the highest sequence
// number since the last ping was sent.
func (m *Machine) recordNewest(p *peer, c *Content) {
	m.clock++
	p.learnedAt = m.clock
	if seq := c.Info.Seq; !p.hasNewest || seq >= p.newestSeq {
		p.hasNewest, p.newestSeq, p.newestDigest = true, seq, c.hash
	}
}

// checkContradiction puts a peer in doubt if the new data c has a lower sequence number
// than data that arrived since the last ping was sent, or the same number but other NIDs.
// It then records c. Data that arrived before a ping was sent cannot contradict the reply
// to that ping.
func (m *Machine) checkContradiction(p *peer, c *Content) {
	seq := c.Info.Seq
	if p.hasNewest && p.learnedAt >= c.pingTime && (seq < p.newestSeq || seq == p.newestSeq && c.hash != p.newestDigest) {
		m.repingInDoubt(p)
	}
	m.recordNewest(p, c)
}

// PushAcked reports to the Machine that a push was acknowledged (discovery 6.7).
func (m *Machine) PushAcked(now time.Duration, id RequestID) {
	m.beginEvent(now)
	if p := m.requests[id]; p != nil && p.work.push == id {
		m.finishRequest(id)
		m.recordPush(p, true)
		if w := p.work; !w.pushVoid {
			p.ackedPushAt = w.pushedAt
			if p.ackedSeq != w.pushed {
				p.ackedSeq = w.pushed
				m.changed(p)
			}
		}
		if p.state.Has(Discovering) {
			m.enqueue(p)
		} else {
			m.handleLateEvent(p)
			p.dropIdleWork()
		}
	}
	m.endEvent()
}

// Restarted reports to the Machine that a driver has detected a new incarnation of the
// node with the NID. That node no longer has the local ping info, and its NIDs may have
// changed. The next message to it waits for a new round.
func (m *Machine) Restarted(now time.Duration, nid lnet.NID) {
	m.beginEvent(now)
	if i := m.nis[nid]; i != nil {
		p := i.peer
		m.peerRestarted(p)
		if p.seq != 0 {
			p.seq = 0
			m.changed(p)
		}
		m.clear(p, NIDsUpToDate)
		m.markInDoubt(p) // the reply to a ping under way may come from the earlier incarnation
		if p.state.Has(Discovering) {
			m.enqueue(p)
		}
	}
	m.endEvent()
}
