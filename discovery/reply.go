package discovery

import (
	"slices"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Reply is the answer to a ping.
type Reply struct {
	// To is our NID that it came to, From the peer's that it came from.
	To, From lnet.NID
	// Content is what it says.
	Content Content
}

// PingReply says that a ping was answered (discovery 6.7).
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

// strange tells whether an answer that names no NID of a gateway's is another node's, to what
// an earlier life of ours has asked: it has come to the same handle. Of other peers a
// later answer mends what such a one has made; but routes would leave with the NIDs, for good.
func (m *Machine) strange(p *peer, c *Content) bool {
	return p.routes > 0 && !c.Short && !slices.ContainsFunc(p.nis, func(i *ni) bool { return c.lists(i.nid) })
}

// PushReceived says that a push came from a NID (discovery 6.7). The ACK and the new MD
// are the node's, whatever is made of it. A push from a NID that belongs to no
// peer is ignored.
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
	// Kernels keep the older of two with one number, and lose a status that is
	// told anew under the same one.
	if w := p.doing(); w.data == nil || c.Info.Seq >= w.data.Info.Seq {
		w.data = c
		m.set(p, DataPresent)
	}
}

// doesNotDiscover notes that we or the peer have discovery turned off. What was
// learned of a peer that has one of the given flags cannot be taken apart: it
// has to go (discovery 6.9), unless an administrator said it (quirk of discovery 6.9).
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

// learnMultiRail: step 5 of a ping reply and 6 of a push.
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
		// Whether it routes counts from here on, not only from the merge.
		m.learnRouter(p, c)
		m.becomeMultiRail(p)
	default:
		m.warn(p, "the peer is Multi-Rail no more", lnet.NID{}, nil)
		m.clear(p, MultiRail)
	}
}

// learnRouter notes whether the peer forwards.
func (m *Machine) learnRouter(p *peer, c *Content) {
	if c.Info.Features&lnet.FeatRoutingDisabled != 0 {
		m.clear(p, RouterEnabled)
	} else {
		m.set(p, RouterEnabled)
	}
}

// enlarge makes room for pushes as long as ping info has been seen.
func (m *Machine) enlarge(size int) {
	if size = min(size, lnet.MTU); size > m.pushRoom {
		m.pushRoom = size
		m.act(EnlargePush{size})
	}
}

// number notes the sequence number that a peer sent. A lower one is accepted: the peer has
// perhaps restarted, and needs our NIDs again.
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

// beginLife notes that the peer has restarted, and needs our NIDs again.
func (m *Machine) beginLife(p *peer) {
	m.order++
	p.reborn = m.order
	m.forgetTold(p)
}

// forgetTold makes the pushes that reached the peer, and the one under way, count no more.
func (m *Machine) forgetTold(p *peer) {
	if p.told != 0 {
		p.told = 0
		m.changed(p)
	}
	if p.work != nil {
		p.work.void = true
	}
}

// hear remembers the data with the highest number since our last ping left.
func (m *Machine) hear(p *peer, c *Content) {
	m.order++
	p.learned = m.order
	if seq := c.Info.Seq; !p.hears || seq >= p.heard {
		p.hears, p.heard, p.digest = true, seq, c.sum
	}
}

// compare has a peer pinged once more if what came now is older than, or differs
// from, what came since our last ping left. An answer does not contradict what had come
// before it was asked for.
func (m *Machine) compare(p *peer, c *Content) {
	seq := c.Info.Seq
	if p.hears && p.learned >= c.asked && (seq < p.heard || seq == p.heard && c.sum != p.digest) {
		m.askAgain(p)
	}
	m.hear(p, c)
}

// PushAcked says that a push was acknowledged (discovery 6.7).
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

// Restarted says that the node with this NID has begun a new life, as its driver
// sees by its incarnation: neither side knows the other any more. The next
// message to it waits for a new round.
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
		m.distrust(p) // the answer to a ping under way may be of the former life
		if p.state.Has(Discovering) {
			m.enqueue(p)
		}
	}
	m.end()
}
