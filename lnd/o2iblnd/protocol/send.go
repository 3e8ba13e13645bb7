package protocol

import (
	"syscall"
	"time"
)

// pump posts queued messages until credits, the number of SENDs or the send queue limit this (o2iblnd 9.3).
// Then it posts a NOOP if one is due.
func (c *Conn) pump(now time.Time, b *Batch) {
	if c.state != Established {
		return
	}
	for _, q := range [...]*queue{&c.urgentReserved, &c.reserved} {
		for q.head != nil && c.credits.MayReserve() {
			c.credits.Reserve()
			tx := q.pop()
			c.credited(tx).push(tx)
		}
	}
	for {
		q := &c.prompt
		if q.head == nil {
			q = &c.urgent
		}
		if q.head == nil {
			q = &c.normal
		}
		if q.head == nil || !c.credits.MaySend(q.head.form) {
			break
		}
		if !c.credits.MayPost() || !c.post(now, q, b) {
			return
		}
	}
	idle := c.o.Keepalive > 0 && now.Sub(c.sent) >= c.o.Keepalive
	if c.room > 0 && c.credits.NoopDue(idle) {
		c.noop(now, b)
	}
}

// noop posts a NOOP.
func (c *Conn) noop(now time.Time, b *Batch) {
	c.out.Type = Noop
	c.send(now, slot{form: Noop, count: 1}, Send{Quiet: true}, b)
}

// post posts the first message of a queue with its RDMA WRITEs. It returns false if the send queue has too
// little room. Each completion makes room, so the caller tries again after the next one.
func (c *Conn) post(now time.Time, q *queue, b *Batch) bool {
	tx := q.head
	writes := tx.zip.count(c.o.Gather)
	s := Send{First: len(b.Writes)}
	if whole := writes + 1; whole > c.room {
		if whole <= c.o.SendQueue || c.room < c.o.SendQueue {
			return false
		}
		// The chain is longer than the send queue, so post a part of it (o2iblnd 11).
		for range c.room {
			tx.zip.next(b, c.o.Gather)
		}
		s.Part, s.Writes = true, c.room
		tx.begun, tx.parts = true, true
		c.take(slot{part: true, tx: tx, count: c.room}, s, b)
		return false
	}
	for range writes {
		tx.zip.next(b, c.o.Gather)
	}
	s.Writes = writes
	q.pop()
	tx.begun, tx.parts = true, false
	c.message(tx)
	if tx.form == Immediate && tx.header.PayloadLength > 0 {
		s.Payload = tx
	}
	s.Quiet = tx.answered()
	c.send(now, slot{form: tx.form, tx: tx, count: writes + 1}, s, b)
	return true
}

// message stores the protocol message of tx in c.out.
func (c *Conn) message(tx *Tx) {
	m := &c.out
	m.Type = tx.form
	switch tx.form {
	case Immediate:
		m.LNet = tx.header
	case PutReq:
		m.LNet = tx.header
		c.requests.add(tx)
		m.Cookie = tx.cookie
	case GetReq:
		m.LNet = tx.header
		c.requests.add(tx)
		m.Cookie, m.Sink = tx.cookie, tx.sink
	case PutAck:
		c.requests.add(tx)
		m.Cookie, m.SinkCookie, m.Sink = tx.theirs, tx.cookie, tx.sink
	case PutNak, PutDone, GetDone:
		m.Cookie, m.Status = tx.theirs, tx.status
	case ConnReq, ConnAck, Noop:
	}
}

// send posts the message in c.out after the WRITEs of s. k describes the chain.
func (c *Conn) send(now time.Time, k slot, s Send, b *Batch) {
	c.out.Credits = c.credits.Post(k.form)
	s.from = len(b.heads)
	heads, err := c.out.Append(b.heads, order)
	if err != nil {
		panic("o2iblnd: " + err.Error()) // the message was checked when it was queued
	}
	b.heads, s.to = heads, len(heads)
	if c.o.Checksum != NoChecksum && s.Payload == nil {
		Seal(heads[s.from:], order, c.o.Checksum)
	}
	if tx := k.tx; k.form == GetDone && tx.status > 0 && int(tx.status) < tx.rx.sink.Length() {
		b.heads = append(b.heads, wholeMark...)
		s.to = len(b.heads)
	}
	c.out.Sink = Descriptor{}
	c.sent = now
	c.take(k, s, b)
}

// take assigns a free slot to the chain k and adds it to the batch as s. It searches in the order of the
// numbers, because chains complete in the order in which they were posted.
func (c *Conn) take(k slot, s Send, b *Batch) {
	for c.slots[c.oldest].used {
		c.oldest = (c.oldest + 1) % len(c.slots)
	}
	s.Slot = c.oldest
	c.oldest = (c.oldest + 1) % len(c.slots)
	k.used = true
	c.slots[s.Slot] = k
	c.room -= k.count
	if k.tx != nil {
		k.tx.posted++
	}
	b.Sends = append(b.Sends, s)
}

// Completed reports that the chain with the given number (Send.Slot) has completed without an error.
func (c *Conn) Completed(now time.Time, number int, b *Batch) {
	if number < 0 || number >= len(c.slots) || !c.slots[number].used {
		return
	}
	k := c.slots[number]
	c.slots[number] = slot{}
	c.room += k.count
	if !k.part {
		c.credits.Posted(k.form)
	}
	c.alive = now
	if tx := k.tx; tx != nil {
		tx.posted--
		if !k.part && !tx.waiting && k.form == tx.form && !k.form.reserves() {
			c.end(tx, tx.failure, b)
		}
	}
	c.pump(now, b)
}

// Failed reports that a work request has failed with err. number is Send.Slot for a chain, and -1 for an
// unsignalled WRITE or a receive. Failed ends the connection (o2iblnd 11). The caller need not report the work
// requests that the queue pair flushes afterwards.
//
// Before Establish, Failed does nothing. If an attempt is rejected, its receives are flushed before the CM
// delivers the reject, and only the reject determines what to do next (o2iblnd 6).
func (c *Conn) Failed(number int, err error, b *Batch) {
	if c.state < Established {
		return
	}
	if number >= 0 && number < len(c.slots) && c.slots[number].tx != nil {
		tx := c.slots[number].tx
		if tx.failure == nil {
			tx.failure = &Failure{Health: RemoteDropped, Errno: syscall.EIO, Err: err}
		}
	}
	c.Close(&Failure{Health: RemoteDropped, Errno: syscall.EIO, Err: err}, b)
}
