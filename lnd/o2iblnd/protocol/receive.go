package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Received processes a message that has arrived in a receive buffer; data is the received part of the buffer.
// The connection uses the buffer until its number is in Batch.Receives.
func (c *Conn) Received(now time.Time, buffer int, data []byte, b *Batch) {
	switch c.state {
	case ActiveConnect, PassiveWait:
		c.early = append(c.early, early{buffer, data})
		return
	case Init, Closing, Disconnected:
		return
	case Established:
	}
	if f := c.receive(now, buffer, data, b); f != nil {
		c.Close(f, b)
		return
	}
	c.pump(now, b)
}

// receive processes one message (o2iblnd 9.4). If it returns a failure, the connection must end.
func (c *Conn) receive(now time.Time, buffer int, data []byte, b *Batch) *Failure {
	m := &c.in
	if _, err := m.Decode(data, c.o.Check); err != nil {
		return failureOf(err)
	}
	for _, err := range [...]error{c.session.belongs(m), c.credits.Returned(m.Credits), c.credits.Took(m.Type)} {
		if err != nil {
			return failureOf(err)
		}
	}
	c.alive = now
	switch m.Type {
	case Noop:
		b.Receives = append(b.Receives, buffer)
		if m.Type.Credit(c.session.Version) {
			c.credits.Owe()
		}
	case Immediate:
		c.arriveImmediate(buffer, m, b)
	case PutReq, GetReq:
		return c.arriveRequest(buffer, m, b)
	case PutAck:
		return c.putAck(now, buffer, m, b)
	case PutNak:
		return c.putNak(buffer, m, b)
	case PutDone:
		return c.putDone(buffer, m, b)
	case GetDone:
		return c.getDone(buffer, data, m, b)
	case ConnReq, ConnAck:
		return broken("%v on an established connection", m.Type)
	}
	return nil
}

// arriveImmediate passes an IMMEDIATE to LNet. If the message is shorter than its LNet header says, it is
// dropped, and the connection stays (o2iblnd 5.3).
func (c *Conn) arriveImmediate(buffer int, m *Message, b *Batch) {
	payload, err := m.Content()
	if err != nil {
		b.Receives = append(b.Receives, buffer)
		c.credits.Owe()
		return
	}
	rx := c.newRx(buffer, m)
	rx.Payload = payload
	b.Arrivals = append(b.Arrivals, rx)
}

var errForward = errors.New("a GET_REQ for another node cannot be forwarded")

// arriveRequest passes a PUT_REQ or GET_REQ to LNet.
func (c *Conn) arriveRequest(buffer int, m *Message, b *Batch) *Failure {
	if m.Type == GetReq && m.LNet.Dest != c.session.Self {
		err := m.fieldError("dest_nid", m.LNet.Dest, errForward)
		return &Failure{Health: RemoteError, Errno: syscall.EPROTO, Err: err}
	}
	rx := c.newRx(buffer, m)
	rx.cookie = m.Cookie
	if m.Type == GetReq {
		rx.sink.copyFrom(&m.Sink)
	}
	b.Arrivals = append(b.Arrivals, rx)
	return nil
}

// newRx returns a record for an arrival in a receive buffer. It reuses released records.
func (c *Conn) newRx(buffer int, m *Message) *Rx {
	if len(c.free) == 0 {
		rx := &Rx{}
		c.rxs = append(c.rxs, rx)
		c.free = append(c.free, rx)
	}
	rx := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	rx.Type, rx.Header, rx.Payload = m.Type, m.LNet, nil
	rx.buffer, rx.state = buffer, rxArrived
	return rx
}

// Release makes the record of an arrival available to later arrivals. The caller calls it for each arrival in
// Batch.Placed, after it has executed the batch.
func (c *Conn) Release(rx *Rx) {
	if rx.state != rxPlaced {
		return
	}
	rx.state = rxFree
	rx.Owner = nil
	c.free = append(c.free, rx)
}

// repost posts the receive buffer of an arrival again.
func (c *Conn) repost(rx *Rx, b *Batch) {
	b.Receives = append(b.Receives, rx.buffer)
	rx.buffer = -1
	rx.Payload = nil
}

// unanswered returns the failure for an answer m to which no request of this node belongs. It ends the
// connection.
func unanswered(m *Message) *Failure {
	return broken("%v with cookie %v: no request has this cookie", m.Type, inHex(m.Cookie))
}

// putAck processes the answer to a PUT_REQ. It queues RDMA WRITEs for as many bytes as the sink has room for,
// and a PUT_DONE (o2iblnd 10.2 step 4b).
func (c *Conn) putAck(now time.Time, buffer int, m *Message, b *Batch) *Failure {
	tx := c.requests.take(m.Cookie, PutReq)
	if tx == nil {
		return unanswered(m)
	}
	b.Receives = append(b.Receives, buffer)
	c.credits.Answered()
	tx.sink.copyFrom(&m.Sink)
	tx.form, tx.theirs, tx.deadline = PutDone, m.SinkCookie, c.limit(now)
	n := planPut(tx.source, &tx.sink)
	if n < 0 {
		tx.failure = broken("PUT_ACK: the sink has %d bytes, more than the payload of %d bytes", tx.sink.Length(), length(tx.source))
	} else {
		n = c.plan(tx, tx.source, &tx.sink, n)
	}
	tx.status = int32(n)
	c.prompt.push(tx)
	return nil
}

var errManyWrites = errors.New("more than the peer allows")

// plan prepares tx for the RDMA of n bytes from source to sink. It returns n. If that would need more WRITEs
// than the session permits, it returns a negative status for the answer, and tx will fail (o2iblnd 10.2).
func (c *Conn) plan(tx *Tx, source []Segment, sink *Descriptor, n int) int {
	tx.zip = newZipper(source, sink, n)
	if writes := tx.zip.count(c.o.Gather); writes > c.session.Fragments {
		tx.zip = zipper{}
		tx.failure = &Failure{Health: LocalError, Errno: syscall.EMSGSIZE, Err: c.out.fieldError("RDMA WRITEs", writes, errManyWrites)}
		return -int(syscall.EMSGSIZE)
	}
	return n
}

// refusal returns the failure that the status of an answer reports, or nil if the status reports success.
func refusal(m *Message) *Failure {
	if m.Status >= 0 {
		return nil
	}
	return &Failure{Health: RemoteError, Errno: syscall.Errno(-m.Status), Err: fmt.Errorf("the peer reported it in %v", m.Type)}
}

// putNak processes the refusal of a PUT_REQ.
func (c *Conn) putNak(buffer int, m *Message, b *Batch) *Failure {
	tx := c.requests.take(m.Cookie, PutReq)
	if tx == nil {
		return unanswered(m)
	}
	b.Receives = append(b.Receives, buffer)
	c.credits.Answered()
	c.end(tx, refusal(m), b)
	return nil
}

var errShortPut = errors.New("the peer wrote fewer bytes than were requested")

// putDone completes a PUT at this node, which has received the payload. The message has used the receive buffer
// that was posted again after the PUT_REQ, so the credit of the PUT_REQ can be returned now (o2iblnd 9.4).
func (c *Conn) putDone(buffer int, m *Message, b *Batch) *Failure {
	tx := c.requests.take(m.Cookie, PutAck)
	if tx == nil {
		return unanswered(m)
	}
	b.Receives = append(b.Receives, buffer)
	c.credits.Owe()
	f := refusal(m)
	if f == nil && int(m.Status) < tx.sink.Length() {
		f = &Failure{Health: RemoteError, Errno: syscall.EIO, Err: errShortPut}
	}
	c.end(tx, f, b)
	return nil
}

// wholeMark is sent after a GET_DONE that reports fewer bytes than were requested. It means that all reported
// bytes were written, which is not certain if a kernel sends the GET_DONE (o2iblnd 18, row 1). Kernels ignore
// bytes after the end of a message (o2iblnd 4).
var wholeMark = []byte{0xa5, 'l', 'n', 'd'}

// getDone completes a GET of this node, which has received the answer (o2iblnd 10.3 step 4).
func (c *Conn) getDone(buffer int, data []byte, m *Message, b *Batch) *Failure {
	tx := c.requests.find(m.Cookie)
	if tx == nil || tx.form != GetReq {
		return unanswered(m)
	}
	if int(m.Status) > tx.sink.Length() {
		return broken("GET_DONE reports %d bytes, but only %d were requested", m.Status, tx.sink.Length())
	}
	c.requests.remove(tx)
	b.Receives = append(b.Receives, buffer)
	c.credits.Answered()
	d := Done{Tx: tx, Failure: refusal(m)}
	if d.Failure == nil {
		d.Replied, d.Length = true, int(m.Status)
		if d.Sure = tx.sink.Sure(d.Length); bytes.HasPrefix(data[completionSize:], wholeMark) {
			d.Sure = d.Length
		}
	}
	c.endWith(tx, d, b)
	return nil
}
