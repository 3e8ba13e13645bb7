package protocol

import (
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Tx is a message on its way out: an LNet message, or the answer to a request. The
// caller owns it, but for the time from Conn.Immediate, Put or Get until it is in
// Batch.Done; it is used again and again. The zero value is ready.
//
//	IMMEDIATE  queued, posted, done
//	PUT        (reserved,) queued, posted, waits for PUT_ACK; queued, RDMA and
//	           PUT_DONE posted, done
//	GET        (reserved,) queued, posted, waits for GET_DONE, done
type Tx struct {
	// Owner is the caller's.
	Owner any
	// Urgent has an IMMEDIATE go before other messages that wait for credits.
	Urgent bool

	form   Type // what is to be sent, or was sent last
	header lnet.Header
	cookie Cookie // of what waits for an answer
	theirs Cookie // what an answer says
	status int32
	source []Segment
	sink   Descriptor
	zip    zipper
	// failure is what becomes of it although it goes on.
	failure *Failure

	active   bool // the connection has it
	waiting  bool // for an answer, by its cookie
	posted   int  // chains that have not completed
	begun    bool // something of it was posted
	parts    bool // a part of its RDMA is posted, and more will be
	deadline time.Time
	rx       *Rx // it is the answer to
	next     *Tx // in a queue
}

// Begun tells, of a message that is done, whether something of it was to be posted: the
// peer may have seen it.
func (t *Tx) Begun() bool { return t.begun }

// begin makes t a new message.
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

// requests are messages that wait for an answer, by their cookies (o2iblnd 5.9):
//
//	 63         48 47                    16 15       0
//	+-------------+------------------------+----------+
//	| connection  | count                  | place    |
//	+-------------+------------------------+----------+
type requests struct {
	connection uint16
	count      uint32
	places     []*Tx
	free       []uint16
}

// add gives a message a cookie that no other request of the peer has.
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

// take finds the message that waits with a cookie in a form, and forgets it; nil:
// there is none.
func (r *requests) take(c Cookie, form Type) *Tx {
	t := r.find(c)
	if t == nil || t.form != form {
		return nil
	}
	r.remove(t)
	return t
}

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
