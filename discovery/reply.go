package discovery

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Reply is the reply to a ping.
type Reply struct {
	// To is the local NID that received it. From is the peer's NID that sent it.
	To, From lnet.NID
	// Content is the decoded ping info.
	Content Content
}

// PingReply reports the reply to a ping (discovery 6.7).
func (m *Machine) PingReply(now time.Duration, id RequestID, r Reply) {
	m.begin(now)
	if p := m.requests[id]; p != nil && p.work.ping == id {
		m.ended(id)
		p.work.source, p.work.destination = r.To, r.From
		m.replied(p, &r.Content)
		m.requeue(p)
	}
	m.end()
}

func (m *Machine) replied(p *peer, c *Content) {
	w := p.work
	if c.Err != nil || m.strange(p, c) {
		m.endedBadly(p, true)
		w.pingErr = nil
		m.set(p, PingFailed)
		return
	}
	if c.Info.Features&lnet.FeatDiscovery == 0 || m.local.Mode.passive() {
		m.doesNotDiscover(p, Discovered|MultiRail)
	} else {
		m.clear(p, NoDiscovery)
	}
	m.learnMultiRail(p, c)
	p.dataSize = max(p.dataSize, int32(min(c.Size, lnet.MTU)))
	if c.Short {
		m.enlarge(c.Size)
		w.pingErr = nil
		m.set(p, PingFailed)
		return
	}
	if P, ok := c.Info.Primary(); ok && P == p.primary && c.Info.Features&lnet.FeatMultiRail != 0 {
		m.number(p, c.Info.Seq)
	}
	w.about = lnet.NID{}
	c.asked = w.asked
	p.settle(c.asked)
	c.digest()
	if p.hears && (c.Info.Seq < p.heard || c.sum != p.digest) {
		m.askAgain(p)
	}
	m.hear(p, c)
	w.data = c
	m.set(p, DataPresent)
}

// strange reports whether a reply lists no NID of the gateway p. Then it comes from another
// node that answers a ping of an earlier incarnation of this node, because both pings have
// the same handle. For other peers a later reply corrects such an error, but a gateway
// would lose its routes with the NIDs.
func (m *Machine) strange(p *peer, c *Content) bool {
	return p.routes > 0 && !c.Short && !slices.ContainsFunc(p.nis, func(i *ni) bool { return c.lists(i.nid) })
}

// PushReceived reports a push from a NID (discovery 6.7). The node sends the ACK and posts
// a new MD, whatever the content. A push from a NID that belongs to no peer is ignored.
func (m *Machine) PushReceived(now time.Duration, from lnet.NID, c Content) {
	m.begin(now)
	m.figures.PushesReceived++
	if i := m.nis[from]; i != nil && !m.stopped {
		p := i.peer
		m.pushed(p, &c)
		if !m.upToDate(p) || p.state.Has(DataPresent|MarkDeletion) {
			if p.queued || p.work != nil && p.work.merge != nil { // it has had its turn
				m.enqueue(p)
			} else {
				m.enqueueFront(p)
			}
		}
	}
	m.end()
}

func (m *Machine) pushed(p *peer, c *Content) {
	if c.Err != nil {
		m.clear(p, NIDsUpToDate)
		m.distrust(p)
		return
	}
	p.dataSize = max(p.dataSize, int32(min(c.Size, lnet.MTU)))
	if c.Info.Features&lnet.FeatMultiRail == 0 {
		m.warn(p, "the peer pushes, but is not Multi-Rail", lnet.NID{}, nil)
		return
	}
	switch {
	case c.Info.Features&lnet.FeatDiscovery != 0:
		m.clear(p, NoDiscovery)
	case p.state.Has(Discovering):
		m.set(p, NoDiscovery)
	default:
		m.doesNotDiscover(p, Discovered)
	}
	m.learnMultiRail(p, c)
	if c.Short || c.Cut {
		m.enlarge(c.Size)
		m.clear(p, NIDsUpToDate)
		m.distrust(p)
		return
	}
	m.number(p, c.Info.Seq)
	m.clear(p, NIDsUpToDate)
	c.digest()
	m.compare(p, c)
	// Kernels keep the older of two pushes with the same number, and so miss a status that
	// changes under that number.
	if w := p.doing(); w.data == nil || c.Info.Seq >= w.data.Info.Seq {
		w.data = c
		m.set(p, DataPresent)
	}
}

// doesNotDiscover records that discovery is off on this node or on the peer. If the peer
// has one of the flags in learned, what was learned about it cannot be separated from the
// rest, and the peer must be removed (discovery 6.9), unless it was configured (quirk of
// discovery 6.9).
func (m *Machine) doesNotDiscover(p *peer, learned State) {
	if p.state.Has(learned) && !p.state.Has(Configured|NoDiscovery) {
		if m.local.Mode == Verify {
			m.warn(p, "the peer discovers no more", lnet.NID{}, nil)
		} else {
			m.set(p, MarkDeletion)
		}
	}
	m.set(p, NoDiscovery)
}

// learnMultiRail is step 5 of a ping reply and step 6 of a push.
func (m *Machine) learnMultiRail(p *peer, c *Content) {
	is, says := p.state.Has(MultiRail), c.Info.Features&lnet.FeatMultiRail != 0
	switch {
	case is == says:
	case p.state.Has(Configured) && says:
		m.warn(p, "the peer is configured as not Multi-Rail, but says that it is", lnet.NID{}, nil)
	case p.state.Has(Configured):
		m.warn(p, "the peer is configured as Multi-Rail, but says that it is not", lnet.NID{}, nil)
	case m.local.Mode == Verify || says && (m.local.Mode.passive() || p.state.Has(NoDiscovery)):
	case says:
		// The router flag counts from now on, not only from the merge.
		m.learnRouter(p, c)
		m.becomeMultiRail(p)
	default:
		m.warn(p, "the peer is Multi-Rail no more", lnet.NID{}, nil)
		m.clear(p, MultiRail)
	}
}

// learnRouter records whether the peer is a router.
func (m *Machine) learnRouter(p *peer, c *Content) {
	if c.Info.Features&lnet.FeatRoutingDisabled != 0 {
		m.clear(p, RouterEnabled)
	} else {
		m.set(p, RouterEnabled)
	}
}

// enlarge increases the room for pushes to the size of the largest ping info seen.
func (m *Machine) enlarge(size int) {
	if size = min(size, lnet.MTU); size > m.pushRoom {
		m.pushRoom = size
		m.act(EnlargePush{size})
	}
}

// number records the sequence number of a peer. A lower number is accepted: the peer may
// have restarted, and then needs the local NIDs again.
func (m *Machine) number(p *peer, seq uint32) {
	if seq == p.seq {
		return
	}
	if seq < p.seq {
		m.act(Log{Peer: p.primary, Text: "the peer's sequence number went back: it has perhaps restarted"})
		m.beginLife(p)
	}
	p.seq = seq
	m.changed(p)
}

// beginLife records that the peer has restarted and needs the local NIDs again.
func (m *Machine) beginLife(p *peer) {
	m.order++
	p.reborn = m.order
	m.forgetTold(p)
}

// forgetTold discards the pushes that reached the peer, and the one under way.
func (m *Machine) forgetTold(p *peer) {
	if p.told != 0 {
		p.told = 0
		m.changed(p)
	}
	if p.work != nil {
		p.work.void = true
	}
}

// hear records the data with the highest number since the last ping left.
func (m *Machine) hear(p *peer, c *Content) {
	m.order++
	p.learned = m.order
	if seq := c.Info.Seq; !p.hears || seq >= p.heard {
		p.hears, p.heard, p.digest = true, seq, c.sum
	}
}

// compare puts a peer in doubt if new data is older than, or differs from, data that
// arrived since the last ping left. A reply does not contradict data that arrived before
// its ping left.
func (m *Machine) compare(p *peer, c *Content) {
	seq := c.Info.Seq
	if p.hears && p.learned >= c.asked && (seq < p.heard || seq == p.heard && c.sum != p.digest) {
		m.askAgain(p)
	}
	m.hear(p, c)
}

// PushAcked reports that a push was acknowledged (discovery 6.7).
func (m *Machine) PushAcked(now time.Duration, id RequestID) {
	m.begin(now)
	if p := m.requests[id]; p != nil && p.work.push == id {
		m.ended(id)
		m.reached(p, true)
		if w := p.work; !w.void {
			p.toldAt = w.pushedAt
			if p.told != w.pushed {
				p.told = w.pushed
				m.changed(p)
			}
		}
		if p.state.Has(Discovering) {
			m.enqueue(p)
		} else {
			m.requeue(p)
			p.rest()
		}
	}
	m.end()
}

// Restarted reports that a new incarnation of the node with the NID has begun, as its
// driver has detected. The node no longer has the local NIDs, and its own may have changed.
// The next message to it waits for a new round.
func (m *Machine) Restarted(now time.Duration, nid lnet.NID) {
	m.begin(now)
	if i := m.nis[nid]; i != nil {
		p := i.peer
		m.beginLife(p)
		if p.seq != 0 {
			p.seq = 0
			m.changed(p)
		}
		m.clear(p, NIDsUpToDate)
		m.distrust(p) // the reply to a ping under way may come from the earlier incarnation
		if p.state.Has(Discovering) {
			m.enqueue(p)
		}
	}
	m.end()
}
