package protocol

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Tx is a message to send: an LNet message, or the answer to a request. It belongs to the connection from the
// call of Conn.Immediate, Put or Get until it is in Batch.Done, and to the caller otherwise. It can be reused.
// The zero value is ready to use. A message passes through these steps:
//
//	IMMEDIATE  queued, posted, done
//	PUT        (reserved,) queued, posted, waits for PUT_ACK; queued, RDMA and
//	           PUT_DONE posted, done
//	GET        (reserved,) queued, posted, waits for GET_DONE, done
type Tx struct {
	// Owner is for use by the caller.
	Owner any
	// Urgent makes the message go before other messages that wait for credits.
	Urgent bool

	form   Type // type of the protocol message that is to be sent next, or was sent last
	header lnet.Header
	cookie Cookie // this node's cookie, if the message waits for an answer
	theirs Cookie // the peer's cookie, if the message is an answer
	status int32
	source []Segment
	sink   Descriptor
	zip    zipper
	// failure is the result with which the message will complete, although the exchange of protocol messages
	// still continues.
	failure *Failure

	active   bool // the message belongs to the connection
	waiting  bool // the message waits for an answer with its cookie
	posted   int  // chains of the message that have not completed
	begun    bool // a part of the message was posted
	parts    bool // a part of the message's RDMA was posted, and more will follow
	deadline time.Time
	rx       *Rx // the arrival that the message answers
	next     *Tx // next in the queue
}

// Begun reports whether the connection has started to post the message. If so, the peer may have received it.
// Begun is valid after the message is done.
func (t *Tx) Begun() bool { return t.begun }

// answered reports whether the upper layer waits for something else than the completion of the message: an
// answer, or the payload that the peer writes. It also reports true for an ACK, with which LNet's exchange ends.
func (t *Tx) answered() bool {
	if t.form != Immediate {
		return t.form.reserves() || t.form == PutAck
	}
	switch t.header.Type {
	case lnet.MsgAck, lnet.MsgGet:
		return true
	case lnet.MsgPut:
		return !t.header.Handle.IsNone()
	}
	return false
}

// begin reinitializes t for a new message.
func (t *Tx) begin(form Type, deadline time.Time) {
	t.form, t.deadline = form, deadline
	t.cookie, t.theirs, t.status = 0, 0, 0
	t.source, t.zip, t.failure = nil, zipper{}, nil
	t.active, t.waiting, t.posted, t.begun, t.parts = true, false, 0, false, false
	t.next = nil
}

// queue is a FIFO of messages.
type queue struct{ head, tail *Tx }

func (q *queue) push(t *Tx) {
	t.next = nil
	if q.head == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
}

func (q *queue) pop() *Tx {
	t := q.head
	q.head, t.next = t.next, nil
	return t
}

// requests contains the messages that wait for an answer. Their cookies have this layout (o2iblnd 5.9):
//
//	 63         48 47                    16 15       0
//	+-------------+------------------------+----------+
//	| connection  | count                  | place    |
//	+-------------+------------------------+----------+
type requests struct {
	connection uint16   // Options.Number
	count      uint32   // number of requests so far
	places     []*Tx    // messages by the place in their cookie
	free       []uint16 // unused places
}

// add adds a message, and assigns a cookie to it that no other request to the peer has.
func (r *requests) add(t *Tx) {
	if len(r.free) == 0 {
		r.free = append(r.free, uint16(len(r.places)))
		r.places = append(r.places, nil)
	}
	place := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.places[place] = t
	r.count++
	t.cookie = Cookie(r.connection)<<48 | Cookie(r.count)<<16 | Cookie(place)
	t.waiting = true
}

// take removes and returns the message of the given form that waits for an answer with the cookie c. It returns
// nil if there is no such message.
func (r *requests) take(c Cookie, form Type) *Tx {
	t := r.find(c)
	if t == nil || t.form != form {
		return nil
	}
	r.remove(t)
	return t
}

// find returns the message that waits for an answer with the cookie c, or nil.
func (r *requests) find(c Cookie) *Tx {
	place := int(c & 0xffff)
	if place >= len(r.places) || r.places[place] == nil || r.places[place].cookie != c {
		return nil
	}
	return r.places[place]
}

func (r *requests) remove(t *Tx) {
	place := uint16(t.cookie)
	r.places[place] = nil
	r.free = append(r.free, place)
	t.waiting = false
}
