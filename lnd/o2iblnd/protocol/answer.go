package protocol

import (
	"fmt"
	"syscall"
	"time"
)

// Consumed ends the arrival of an IMMEDIATE after its payload has been copied, or because it is not wanted
// (o2iblnd 9.4). It immediately adds rx to Batch.Placed. If the connection has ended, rx fails, because the
// contents of the receive buffers are then invalid.
func (c *Conn) Consumed(now time.Time, rx *Rx, b *Batch) {
	if rx.state != rxArrived {
		return
	}
	rx.state = rxPlaced
	if c.state != Established {
		b.Placed = append(b.Placed, Placed{Rx: rx, Failure: c.lost(NetworkTimeout, errNotUp)})
		return
	}
	c.repost(rx, b)
	c.credits.Owe()
	b.Placed = append(b.Placed, Placed{Rx: rx})
	c.pump(now, b)
}

// Sink answers a PUT_REQ by offering sink, which may be shorter than the payload; the peer writes into it
// (o2iblnd 10.2 step 3b). The memory must not be accessed until rx is in Batch.Placed. If sink cannot be sent
// to a peer, rx fails and the peer receives a PUT_NAK.
func (c *Conn) Sink(now time.Time, rx *Rx, sink *Descriptor, b *Batch) {
	err := sink.sendable(c.session.Fragments)
	if n := sink.Length(); err == nil && n > int(rx.Header.PayloadLength) {
		err = c.out.fieldError("payload_length", rx.Header.PayloadLength, fmt.Errorf("less than the %d bytes of the sink", n))
	}
	if err != nil {
		c.answer(now, rx, PutNak, -int32(syscall.EINVAL), &Failure{Health: LocalError, Errno: syscall.EINVAL, Err: err}, b)
		return
	}
	rx.answer.sink.copyFrom(sink)
	c.answer(now, rx, PutAck, 0, nil, b)
}

// Reply answers a GET_REQ with the bytes of source, which must not change until rx is in Batch.Placed (o2iblnd
// 10.3 step 3). If source has more than rx.Room bytes, which would crash a kernel, rx fails and the peer
// receives an error status (o2iblnd 18, row 2).
func (c *Conn) Reply(now time.Time, rx *Rx, source []Segment, b *Batch) {
	n := length(source)
	if n > rx.Room() {
		err := c.out.fieldError("sink_length", rx.Header.Length, fmt.Errorf("less than the %d bytes of the reply", n))
		c.answer(now, rx, GetDone, -int32(syscall.EMSGSIZE), &Failure{Health: LocalError, Errno: syscall.EMSGSIZE, Err: err}, b)
		return
	}
	if rx.state != rxArrived || c.state != Established {
		c.answer(now, rx, GetDone, 0, nil, b)
		return
	}
	tx := &rx.answer
	tx.begin(GetDone, c.limit(now))
	tx.source = source
	c.respond(now, rx, int32(c.plan(tx, source, &rx.sink, n)), b)
}

// Refuse answers an arrival whose payload LNet does not want, or for which there is no match (o2iblnd 10.2 step
// 3a, 10.3 step 2, 14). errno is 0 if LNet's rules refuse the message. If this node cannot perform the
// transfer, errno is the error, which the peer receives. An IMMEDIATE is consumed.
func (c *Conn) Refuse(now time.Time, rx *Rx, errno syscall.Errno, b *Batch) {
	switch rx.Type {
	case PutReq:
		c.answer(now, rx, PutNak, -int32(errno), nil, b)
	case GetReq:
		if errno == 0 {
			errno = syscall.ENODATA
		}
		c.answer(now, rx, GetDone, -int32(errno), nil, b)
	default:
		c.Consumed(now, rx, b)
	}
}

// answer answers the request rx by a message of type form with the given status, without RDMA. When the answer
// has been sent, rx completes with the failure f, which may be nil.
func (c *Conn) answer(now time.Time, rx *Rx, form Type, status int32, f *Failure, b *Batch) {
	if rx.state != rxArrived {
		return
	}
	if c.state != Established {
		rx.state = rxPlaced
		b.Placed = append(b.Placed, Placed{Rx: rx, Failure: c.lost(NetworkTimeout, errNotUp)})
		return
	}
	tx := &rx.answer
	tx.begin(form, c.limit(now))
	tx.failure = f
	c.respond(now, rx, status, b)
}

// respond queues the answer to rx, and posts the receive buffer of the request again. This node then owes the
// peer the credit of the request. Only after a PUT_ACK it does not yet, because the peer's PUT_DONE will use
// the buffer; the credit is owed after the PUT_DONE (o2iblnd 9.4).
func (c *Conn) respond(now time.Time, rx *Rx, status int32, b *Batch) {
	tx := &rx.answer
	tx.rx, tx.theirs, tx.status = rx, rx.cookie, status
	rx.state = rxAnswered
	c.prompt.push(tx)
	c.repost(rx, b)
	if tx.form != PutAck {
		c.credits.Owe()
	}
	c.pump(now, b)
}
