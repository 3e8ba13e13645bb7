package proxy

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// arrival is a message that the driver has announced. It has a handle until lnetd is done with it.
type arrival struct {
	guest  *guest
	rx     *lnd.Rx
	from   lnet.ProcessID
	header lnet.Header
	handle uint64

	// The fields below are guarded by guest.mu.
	counted   bool // among guest.known
	asked     bool // lnetd wants the payload
	ahead     bool // the payload was, or is being, received before lnetd had a place
	announced bool // lnetd knows the handle
	wanted    int  // bytes of the payload that lnetd wants, or that are received ahead
	buffer    bool // offset is that of a buffer for wanted bytes
	offset    uint64
	placed    bool // iface.Receive was, or is being, called
	segment   [1]memory.Segment
}

// early is a message that has arrived before the interface was open.
type early struct {
	rx        *lnd.Rx
	withdrawn bool
}

// Arrived implements lnd.Upper.
func (g *guest) Arrived(m *lnd.Rx) error {
	if err := m.Header.Validate(); err != nil {
		return err
	}
	if !g.isPeer(m.From.NID) {
		return fmt.Errorf("proxy: a message from %s, which is not a peer of %s", m.From.NID, g.self)
	}
	g.mu.Lock()
	opening := g.iface == nil
	if opening {
		g.early = append(g.early, early{rx: m})
	}
	g.mu.Unlock()
	if !opening {
		g.arrive(m)
	}
	return nil
}

// isPeer reports whether a NID can be that of a peer. lnetd detaches proxies that report others.
func (g *guest) isPeer(nid lnet.NID) bool {
	return nid.Net() == g.self.Net() && nid != g.self && !nid.IsAny()
}

// open sets the interface and handles what has arrived before.
func (g *guest) open(i lnd.Interface) {
	g.mu.Lock()
	g.iface = i
	g.opened.Store(true)
	list := g.early
	g.early = nil
	g.mu.Unlock()
	for _, e := range list {
		if e.withdrawn {
			i.Receive(e.rx, lnd.Placement{})
		} else {
			g.arrive(e.rx)
		}
	}
}

// arrive reports an arrival, or makes it wait if lnetd knows as many as it may. A payload is received at once if
// there is memory, and if lnetd has a place for most of the earlier ones of this peer.
func (g *guest) arrive(m *lnd.Rx) {
	a := &arrival{guest: g, rx: m, from: m.From, header: m.Header}
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		g.iface.Receive(m, lnd.Placement{})
		return
	}
	a.handle = g.arrivals.Add(a)
	switch {
	case g.known >= g.maxKnown:
		g.later = append(g.later, a)
	case g.receiveAhead(a):
		g.count(a)
	default:
		g.announce(a)
	}
	g.unlock()
	if a.ahead {
		g.iface.Receive(m, lnd.Placement{Memory: a.memory(), Done: a})
	}
}

// count counts an arrival among those that lnetd knows or will know. g.mu is held.
func (g *guest) count(a *arrival) {
	a.counted = true
	g.known++
}

// announce reports an arrival without its payload. g.mu is held.
func (g *guest) announce(a *arrival) {
	g.count(a)
	a.announced = true
	g.put(&protocol.Entry{Op: protocol.Arrived, Handle: a.handle, Peer: a.from, Header: a.header})
}

// receiveAhead allocates the buffer for a payload that is received before lnetd has a place for it. Half of the
// memory is left for payloads that lnetd has asked for. g.mu is held.
func (g *guest) receiveAhead(a *arrival) bool {
	n := int(a.header.PayloadLength)
	if n == 0 || n > g.config.MaxAhead || len(g.starved) > 0 || g.ahead[a.from.NID] >= maxAhead {
		return false
	}
	size := protocol.BufferSize(n)
	if g.aheadBytes+size > g.maxAheadBytes || !g.allocate(a, n) {
		return false
	}
	a.ahead, a.placed = true, true
	g.ahead[a.from.NID]++
	g.aheadBytes += size
	return true
}

// allocate gets a buffer for n bytes of payload. g.mu is held.
func (g *guest) allocate(a *arrival, n int) bool {
	offset, ok := g.buffers.Get(n)
	if ok {
		a.buffer, a.offset, a.wanted = true, offset, n
		a.segment[0] = memory.Segment{Bytes: g.area.Bytes()[offset:][:n:n]}
	}
	return ok
}

// memory returns the buffer.
func (a *arrival) memory() memory.Vector {
	return memory.Vector{Segments: a.segment[:], Length: a.wanted}
}

// Received implements lnd.Receiver: the payload is in the buffer, or will not come.
func (a *arrival) Received(m *lnd.Rx, err error) {
	g := a.guest
	g.mu.Lock()
	switch {
	case !a.ahead:
		e := protocol.Entry{Op: protocol.Payload, Handle: a.handle, Length: uint32(a.wanted), Offset: a.offset}
		e.SetError(err)
		g.put(&e)
	case err == nil:
		a.announced = true
		g.put(&protocol.Entry{Op: protocol.Arrived, Handle: a.handle, Peer: a.from, Header: a.header, HasPayload: true, Offset: a.offset})
	default: // it was not reported to lnetd
		g.forget(a)
	}
	g.unlock()
	g.feed()
}

// forget frees everything of an arrival, so that another one may be announced. g.mu is held.
func (g *guest) forget(a *arrival) {
	g.arrivals.Remove(a.handle)
	if a.counted {
		g.known--
	}
	for len(g.later) > 0 && g.known < g.maxKnown {
		next := g.later[0]
		g.later = g.later[1:]
		if !next.placed { // not withdrawn
			g.announce(next)
		}
	}
	if a.buffer {
		g.buffers.Put(a.offset, a.wanted)
		a.buffer = false
	}
	if a.ahead {
		g.aheadBytes -= protocol.BufferSize(a.wanted)
		if g.ahead[a.from.NID]--; g.ahead[a.from.NID] == 0 {
			delete(g.ahead, a.from.NID)
		}
	}
}

// Withdrawn implements lnd.Upper.
func (g *guest) Withdrawn(m *lnd.Rx) {
	g.mu.Lock()
	for k := range g.early {
		if g.early[k].rx == m {
			g.early[k].withdrawn = true
		}
	}
	lost := false
	g.arrivals.All(func(_ uint64, a *arrival) {
		if a.rx != m || a.placed {
			return
		}
		a.placed, lost = true, true
		if a.announced {
			g.put(&protocol.Entry{Op: protocol.Withdrawn, Handle: a.handle})
		} else {
			g.forget(a)
		}
	})
	g.unlock()
	if lost {
		g.iface.Receive(m, lnd.Placement{})
	}
}

// take receives the first n bytes of a payload for lnetd, when there is a buffer for them.
func (g *guest) take(handle uint64, n int) error {
	g.mu.Lock()
	a, ok := g.arrivals.Find(handle)
	if !ok || a.ahead || a.asked || n > int(a.header.PayloadLength) {
		g.mu.Unlock()
		return fmt.Errorf("proxy: order of lnetd: take %d bytes of arrival %#x", n, handle)
	}
	a.asked, a.wanted = true, n
	g.starved = append(g.starved, a)
	g.mu.Unlock()
	g.feed()
	return nil
}

// feed gives buffers to arrivals that wait for one, in order.
func (g *guest) feed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.starved) > 0 {
		a := g.starved[0]
		if !a.placed && a.wanted > 0 && !g.allocate(a, a.wanted) {
			return
		}
		g.starved = g.starved[1:]
		if a.placed { // withdrawn
			continue
		}
		a.placed = true
		g.mu.Unlock()
		g.iface.Receive(a.rx, lnd.Placement{Memory: a.memory(), Done: a})
		g.mu.Lock()
	}
}

// done ends an arrival. If the node has refused it, the connections to its peer are closed.
func (g *guest) done(handle uint64, refused bool) error {
	g.mu.Lock()
	a, ok := g.arrivals.Find(handle)
	if !ok || !a.announced {
		g.mu.Unlock()
		return fmt.Errorf("proxy: order of lnetd: arrival %#x is done, but does not exist", handle)
	}
	g.forget(a)
	dropped := !a.placed
	a.placed = true
	g.unlock()
	if dropped {
		g.iface.Receive(a.rx, lnd.Placement{})
	}
	if refused {
		g.refused(a.from.NID)
	}
	g.feed()
	return nil
}

// refused closes the connections to a peer that breaks LNet's protocol.
func (g *guest) refused(peer lnet.NID) {
	g.ConnectionsLost(peer)
	g.PeerDown(lnd.PeerDown{Peer: peer, Err: &lnd.Error{Op: "receive", Peer: peer, Status: lnd.StatusRemoteError, Err: lnd.ErrProtocol}})
	g.iface.Disconnect(peer)
}

// PeerDown implements lnd.Upper.
func (g *guest) PeerDown(d lnd.PeerDown) {
	if !g.isPeer(d.Peer) {
		return
	}
	e := protocol.Entry{Op: protocol.PeerDown, Peer: lnet.ProcessID{NID: d.Peer}, Time: g.reading(d.LastAlive)}
	e.SetError(d.Err)
	if e.Status == lnd.StatusOK {
		e.Status = lnd.StatusRemoteError
	}
	g.report(&e)
}

// reportPeer reports news about a peer.
func (g *guest) reportPeer(e *protocol.Entry) {
	if g.isPeer(e.Peer.NID) {
		g.report(e)
	}
}

// reading returns t in nanoseconds of CLOCK_MONOTONIC, at least 1, or 0 if t is zero.
func (g *guest) reading(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(g.clock.Reading(t), 1))
}

// ConnectionsLost implements lnd.Upper.
func (g *guest) ConnectionsLost(peer lnet.NID) {
	g.reportPeer(&protocol.Entry{Op: protocol.Lost, Peer: lnet.ProcessID{NID: peer}})
}

// PeerRestarted implements lnd.Upper.
func (g *guest) PeerRestarted(peer lnet.NID) {
	g.reportPeer(&protocol.Entry{Op: protocol.Restarted, Peer: lnet.ProcessID{NID: peer}})
}

// PeerStalled implements lnd.Upper.
func (g *guest) PeerStalled(peer lnet.NID, since time.Time) {
	g.reportPeer(&protocol.Entry{Op: protocol.Stalled, Peer: lnet.ProcessID{NID: peer}, Time: g.reading(since)})
}

// LNDTimeout implements lnd.Upper.
func (g *guest) LNDTimeout() time.Duration { return time.Duration(g.timeout.Load()) }

// Vouched implements lnd.Upper.
func (g *guest) Vouched(peer lnet.NID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.vouched[peer]
}

// LinkChanged implements lnd.Upper.
func (g *guest) LinkChanged(s lnd.LinkState) {
	g.report(&protocol.Entry{Op: protocol.Link, Up: s == lnd.LinkUp})
}
