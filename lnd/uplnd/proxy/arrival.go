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
	ahead     bool // the payload was, or is being, received before lnetd had a place
	announced bool // lnetd knows the handle
	wanted    int  // bytes of the payload that lnetd wants, or that are received ahead
	buffer    bool // offset is that of a buffer for wanted bytes
	offset    uint64
	placed    bool // iface.Receive was, or is being, called
	segment   [1]memory.Segment
}

// Arrived implements lnd.Upper. A payload is received at once if there is a buffer, and if lnetd has a place
// for most of the earlier ones of this peer.
func (g *guest) Arrived(m *lnd.Rx) error {
	if err := m.Header.Validate(); err != nil {
		return err
	}
	a := &arrival{guest: g, rx: m, from: m.From, header: m.Header}
	n := int(m.Header.PayloadLength)
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		g.iface.Receive(m, lnd.Placement{})
		return nil
	}
	a.handle = g.arrivals.Add(a)
	a.ahead = n > 0 && n <= g.config.MaxAhead && len(g.starved) == 0 && g.ahead[m.From.NID] < maxAhead && g.allocate(a, n)
	if a.ahead {
		a.placed = true
		g.ahead[m.From.NID]++
	} else {
		a.announced = true
		g.put(&protocol.Entry{Op: protocol.Arrived, Handle: a.handle, Peer: m.From, Header: m.Header})
	}
	wake := g.claim()
	g.mu.Unlock()
	g.wake(wake)
	if a.ahead {
		g.iface.Receive(m, lnd.Placement{Memory: a.memory(), Done: a})
	}
	return nil
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
	wake := g.claim()
	g.mu.Unlock()
	g.wake(wake)
	g.feed()
}

// forget frees everything of an arrival. g.mu is held.
func (g *guest) forget(a *arrival) {
	g.arrivals.Remove(a.handle)
	if a.buffer {
		g.buffers.Put(a.offset, a.wanted)
		a.buffer = false
	}
	if a.ahead {
		if g.ahead[a.from.NID]--; g.ahead[a.from.NID] == 0 {
			delete(g.ahead, a.from.NID)
		}
	}
}

// Withdrawn implements lnd.Upper.
func (g *guest) Withdrawn(m *lnd.Rx) {
	g.mu.Lock()
	lost := false
	g.arrivals.All(func(_ uint64, a *arrival) {
		if a.rx == m && !a.placed {
			a.placed, lost = true, true
			g.put(&protocol.Entry{Op: protocol.Withdrawn, Handle: a.handle})
		}
	})
	wake := g.claim()
	g.mu.Unlock()
	g.wake(wake)
	if lost {
		g.iface.Receive(m, lnd.Placement{})
	}
}

// take receives the first n bytes of a payload for lnetd, when there is a buffer for them.
func (g *guest) take(handle uint64, n int) error {
	g.mu.Lock()
	a, ok := g.arrivals.Find(handle)
	if !ok || a.ahead || n > int(a.header.PayloadLength) {
		g.mu.Unlock()
		return fmt.Errorf("proxy: order of lnetd: take %d bytes of arrival %#x", n, handle)
	}
	a.wanted = n
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
	g.mu.Unlock()
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
	e := protocol.Entry{Op: protocol.PeerDown, Peer: lnet.ProcessID{NID: d.Peer}, Time: g.reading(d.LastAlive)}
	e.SetError(d.Err)
	if e.Status == lnd.StatusOK {
		e.Status = lnd.StatusRemoteError
	}
	g.report(&e)
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
	g.report(&protocol.Entry{Op: protocol.Lost, Peer: lnet.ProcessID{NID: peer}})
}

// PeerRestarted implements lnd.Upper.
func (g *guest) PeerRestarted(peer lnet.NID) {
	g.report(&protocol.Entry{Op: protocol.Restarted, Peer: lnet.ProcessID{NID: peer}})
}

// PeerStalled implements lnd.Upper.
func (g *guest) PeerStalled(peer lnet.NID, since time.Time) {
	g.report(&protocol.Entry{Op: protocol.Stalled, Peer: lnet.ProcessID{NID: peer}, Time: g.reading(since)})
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
