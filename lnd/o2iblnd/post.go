package o2iblnd

import (
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// unlock posts the batch, unless a worker collects more SENDs, and unlocks c.mu. It then does the work that
// must be done without the lock: if the connection is ending, it removes it from the peer, and it runs the
// outbox. The peer's lock is not held.
func (c *conn) unlock() {
	if c.corks == 0 || len(c.b.Sends) >= maxCorked {
		c.post()
	}
	lose := c.ending && !c.lost
	c.lost = c.lost || lose
	ring := c.outboxPending
	c.outboxPending = false
	c.mu.Unlock()
	if lose {
		c.p.lose(c)
	}
	if ring {
		c.i.Out.Run()
	}
}

// maxCorked is how many SENDs are collected while a worker processes a harvest. If there are more, they are
// posted before the end of the harvest.
const maxCorked = 32

// post posts the receives and SENDs of the batch by one call. If the connection is ending, it discards them.
// c.mu is held.
func (c *conn) post() {
	b, w := &c.b, &c.work
	if len(b.Receives)+len(b.Sends) == 0 {
		return
	}
	if c.ending {
		b.Reset()
		return
	}
	w.recvs, w.requests, w.pieces = w.recvs[:0], w.requests[:0], w.pieces[:0]
	for _, n := range b.Receives {
		w.recvs = append(w.recvs, c.recv(n))
	}
	for k := range b.Sends {
		c.prepare(&b.Sends[k])
	}
	if len(b.Sends) > 0 && c.inFlight == 0 {
		c.moved = time.Now()
	}
	c.await(b.Sends)
	c.p.sent.Add(uint64(len(b.Sends)))
	b.Reset()
	if _, _, err := c.id.Post(w.recvs, w.requests, w.pieces); err != nil {
		c.m.Failed(-1, err, b)
		c.take(nil)
		b.Reset()
	}
}

// deferrable returns the maximum number of SENDs in flight on the connection whose completions are deferred. It
// leaves half of the credits of the peer to others, so that the node never waits for a deferred completion.
func (c *conn) deferrable() int {
	return c.session.Depth / (2 * c.i.options.Load().ConnsPerPeer)
}

// await counts SENDs that are about to be posted. If the completion of one of them is needed soon, await makes it
// wake the worker. c.mu is held.
func (c *conn) await(sends []protocol.Send) {
	before, limit := c.awaiting, c.deferrable()
	for k := range sends {
		if !sends[k].Quiet || c.inFlight >= limit {
			c.awaited[sends[k].Slot] = true
			c.awaiting++
		}
		c.inFlight++
	}
	c.q.await(c.awaiting - before)
}

// completed counts a SEND that has completed. c.mu is held.
func (c *conn) completed(number int) {
	c.inFlight--
	if c.awaited[number] {
		c.awaited[number] = false
		c.awaiting--
		c.q.awaited.Add(-1)
	}
}

// recv returns the work request for receive buffer n.
func (c *conn) recv(n int) verbs.Recv {
	b := &c.recvs[n]
	return verbs.Recv{WRID: wrRecv<<(3*fieldBits) | c.wr | uint64(n), Addr: b.addr(), Len: protocol.MaxMessage, LKey: b.mem.LKey()}
}

// prepare builds the work requests of a chain: RDMA WRITEs and the SEND that follows them.
func (c *conn) prepare(s *protocol.Send) {
	b, w := &c.b, &c.work
	for k := range s.Writes {
		wr := &b.Writes[s.First+k]
		r := verbs.Request{
			WRID: wrWrite<<(3*fieldBits) | c.wr, Remote: wr.Addr, RKey: wr.Key,
			First: uint16(len(w.pieces)), Count: uint16(wr.Pieces), Op: verbs.RDMAWrite,
		}
		for _, piece := range b.Pieces[wr.First : wr.First+wr.Pieces] {
			w.pieces = append(w.pieces, verbs.Piece{Addr: piece.Addr, Len: piece.Length, LKey: piece.Key})
		}
		if s.Part && k == s.Writes-1 {
			r.WRID, r.Flags = wrSend<<(3*fieldBits)|c.wr|uint64(s.Slot), verbs.FlagSignalled
		}
		w.requests = append(w.requests, r)
	}
	if s.Part {
		return
	}
	head := b.Head(s)
	buffer, n := &c.slots[s.Slot], len(head)
	if s.Payload != nil {
		t := s.Payload.Owner.(*tx)
		buffer, n = &t.buffer, len(head)+t.m.Payload.Length
	}
	bytes := buffer.bytes()[:n]
	copy(bytes, head)
	if v := c.i.driver.config.Checksum; v != protocol.NoChecksum && s.Payload != nil {
		protocol.Seal(bytes, byteOrder, v)
	}
	flags := verbs.FlagSignalled
	if n <= c.inline {
		flags |= verbs.FlagInline
	}
	w.pieces = append(w.pieces, verbs.Piece{Addr: buffer.addr(), Len: uint32(n), LKey: buffer.mem.LKey()})
	w.requests = append(w.requests, verbs.Request{
		WRID: wrSend<<(3*fieldBits) | c.wr | uint64(s.Slot), First: uint16(len(w.pieces) - 1), Count: 1,
		Op: verbs.Send, Flags: flags,
	})
}
