package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Options configure a connection. A field that is zero selects its default.
type Options struct {
	Flow Flow
	// Timeout is how long a message may be queued or unanswered (o2iblnd 13.2). Keepalive is how long the
	// connection may send nothing; then a NOOP is due. Negative values mean no limit.
	Timeout, Keepalive time.Duration
	// Gather is the maximum number of pieces of an RDMA WRITE, and SendQueue the maximum number of
	// work requests of the queue pair (o2iblnd 11). If a source has more pieces than Gather times
	// the peer's fragments, the caller must copy it into fewer pieces.
	Gather, SendQueue int
	Checksum          Variant
	Check             Checking
	// Number distinguishes the connections with a peer in the cookies of requests.
	Number uint16
}

// Defaults (o2iblnd 15).
const (
	defaultTimeout   = 50 * time.Second
	defaultKeepalive = 100 * time.Second
	defaultGather    = 2
	defaultSendQueue = 1024
)

// resolved returns o with defaults filled in.
func (o Options) resolved() Options {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Keepalive == 0 {
		o.Keepalive = defaultKeepalive
	}
	if o.Gather <= 0 {
		o.Gather = defaultGather
	}
	if o.SendQueue <= 0 {
		o.SendQueue = defaultSendQueue
	}
	o.Flow = o.Flow.Resolved()
	return o
}

// State is the state of a connection (o2iblnd 12.1).
type State uint8

// The states.
const (
	Init          State = iota // neither Connect nor Accept was called
	ActiveConnect              // we have sent a request
	PassiveWait                // we have accepted a request
	Established                // messages can be sent
	Closing                    // the connection has ended; messages may be in progress until Flushed
	Disconnected               // all messages are completed
)

// String returns a name such as "ESTABLISHED".
func (s State) String() string {
	return [...]string{"INIT", "ACTIVE_CONNECT", "PASSIVE_WAIT", "ESTABLISHED", "CLOSING", "DISCONNECTED"}[s]
}

// Conn is the state machine of one connection, that is, one queue pair. It does no I/O. Its methods receive
// events and the time, and append the resulting actions to a Batch.
//
// A driver posts ReceiveBuffers receive buffers, numbered from 0, and then calls Connect or Accept. When the CM
// reports that the connection is established, it calls Establish. Then it sends messages with Immediate, Put
// and Get, reports completions with Received, Completed and Failed, answers arrivals with Consumed, Sink, Reply
// and Refuse, and passes the time with Tick. The end of the connection begins with Batch.Disconnect, because
// the state machine requests it or the driver has called Close. When the queue pair no longer accesses memory,
// the driver calls Flushed once. After that, all messages have completed, each exactly once.
type Conn struct {
	o       Options
	session Session
	state   State
	credits Credits

	// The queues of messages that are not posted yet. In reserved are PUT_REQs and GET_REQs that wait for a
	// receive buffer for their answer (Credits.Reserve). In normal are other messages that need a credit, in
	// prompt those that need none. Urgent messages wait in separate queues, which are served before reserved
	// and normal.
	urgentReserved, reserved, urgent, normal, prompt queue
	requests                                         requests // messages that wait for an answer
	slots                                            []slot   // posted chains
	oldest                                           int      // slot to use next
	room                                             int      // work requests for which the send queue has room

	rxs   []*Rx   // all records of arrivals
	free  []*Rx   // records for later arrivals
	early []early // messages received before Establish

	in, out  Message   // for decoding and encoding
	alive    time.Time // when the peer last gave a sign of life
	sent     time.Time // when a SEND was last posted
	deadline time.Time // time limit of the state ActiveConnect
	failure  *Failure  // why the connection ends
}

// slot is a chain that is posted and has not completed.
type slot struct {
	used  bool
	part  bool // Send.Part
	form  Type // type of the message
	tx    *Tx  // nil for a NOOP, and if the message has already completed
	count int  // number of work requests
}

// early is a message that was received before the connection was established.
type early struct {
	buffer int
	data   []byte
}

// NewConn returns a connection in the state Init.
func NewConn(o Options) *Conn {
	c := &Conn{o: o.resolved()}
	c.requests.connection = o.Number
	return c
}

// State returns the state of the connection.
func (c *Conn) State() State { return c.state }

// Session returns the parameters that both sides have agreed on. They are zero before Establish.
func (c *Conn) Session() *Session { return &c.session }

// Credits returns the credits, for display.
func (c *Conn) Credits() *Credits { return &c.credits }

// Alive returns when the peer was last known to be alive, or the zero time.
func (c *Conn) Alive() time.Time { return c.alive }

// Failure returns why the connection has ended or is about to end. It returns nil if neither is the
// case.
func (c *Conn) Failure() *Failure { return c.failure }

// Slots returns the maximum number of chains that are posted at a time. It never changes.
func (c *Conn) Slots() int { return max(c.o.Flow.ConcurrentSends, v1MinSends) + 1 }

// Connect records that the caller has asked the CM to connect.
func (c *Conn) Connect(now time.Time) {
	c.state = ActiveConnect
	c.deadline = now.Add(ConnectTimeout(c.o.Timeout))
}

// Accept records that the caller has asked the CM to accept the connection. The state machine does not limit
// the time until the connection is established; the CM does (o2iblnd 12.1).
func (c *Conn) Accept() { c.state = PassiveWait }

// Establish makes the connection usable, with the parameters s. It also processes messages that were received
// before (o2iblnd 3.3).
func (c *Conn) Establish(now time.Time, s Session, b *Batch) {
	if c.state != ActiveConnect && c.state != PassiveWait {
		return
	}
	c.state, c.session = Established, s
	c.credits = NewCredits(s.Version, s.Depth, c.o.Flow)
	c.slots = make([]slot, c.Slots())
	c.room = c.o.SendQueue
	c.out = Message{Version: s.Version, Src: s.Self, SrcStamp: s.SelfStamp, Dst: s.Peer, DstStamp: s.PeerStamp}
	c.alive, c.sent = now, now
	for _, e := range c.early {
		c.Received(now, e.buffer, e.data, b)
	}
	c.early = nil
}

// Immediate sends a message together with its payload of h.PayloadLength bytes, which the caller adds to the
// message: see Send.Payload.
func (c *Conn) Immediate(now time.Time, tx *Tx, h *lnet.Header, b *Batch) {
	c.begin(now, tx, Immediate, h)
	c.enqueue(now, tx, c.credited(tx), b)
}

// Put sends a message whose payload is source. The payload is transferred by RDMA and must not change until tx
// is in Batch.Done.
func (c *Conn) Put(now time.Time, tx *Tx, h *lnet.Header, source []Segment, b *Batch) {
	c.begin(now, tx, PutReq, h)
	tx.source = source
	c.enqueue(now, tx, c.reserving(tx), b)
}

// Get sends a GET. The peer writes the answer into sink by RDMA. The memory must not be accessed until tx is in
// Batch.Done. If sink is longer than the answer, a kernel may leave out a part of the answer: see Done.Sure. tx
// fails if sink cannot be sent to a peer.
func (c *Conn) Get(now time.Time, tx *Tx, h *lnet.Header, sink *Descriptor, b *Batch) {
	c.begin(now, tx, GetReq, h)
	if c.state != Established {
		c.end(tx, c.lost(LocalError, errNotUp), b)
		return
	}
	if err := sink.sendable(c.session.Fragments); err != nil {
		c.end(tx, &Failure{Health: LocalError, Errno: syscall.EINVAL, Err: err}, b)
		return
	}
	tx.sink.copyFrom(sink)
	c.enqueue(now, tx, c.reserving(tx), b)
}

// credited returns the queue in which the message waits for credits.
func (c *Conn) credited(tx *Tx) *queue {
	if tx.Urgent {
		return &c.urgent
	}
	return &c.normal
}

// reserving returns the queue in which the message, a PUT_REQ or GET_REQ, waits for a receive buffer for its
// answer.
func (c *Conn) reserving(tx *Tx) *queue {
	if tx.Urgent {
		return &c.urgentReserved
	}
	return &c.reserved
}

// waiting returns the queues whose messages can still be canceled. Of a message in them, no SEND was posted.
func (c *Conn) waiting() [4]*queue {
	return [...]*queue{&c.urgentReserved, &c.reserved, &c.urgent, &c.normal}
}

// begin initializes tx for a message of type form with the LNet header h.
func (c *Conn) begin(now time.Time, tx *Tx, form Type, h *lnet.Header) {
	tx.begin(form, c.limit(now))
	tx.header = *h
	tx.rx = nil
}

// limit returns the deadline of a message that begins now, or the zero time if there is no limit.
func (c *Conn) limit(now time.Time) time.Time {
	if c.o.Timeout < 0 {
		return time.Time{}
	}
	return now.Add(c.o.Timeout)
}

var errNotUp = errors.New("the connection is not established")

// enqueue queues a message that begin has initialized. If the message cannot be sent, enqueue completes it
// with a failure instead.
func (c *Conn) enqueue(now time.Time, tx *Tx, q *queue, b *Batch) {
	if c.state != Established {
		c.end(tx, c.lost(LocalError, errNotUp), b)
		return
	}
	if tx.form == Immediate && tx.header.PayloadLength > MaxPayload {
		err := c.out.fieldError("payload_length", tx.header.PayloadLength, errPayload)
		c.end(tx, &Failure{Health: LocalError, Errno: syscall.EMSGSIZE, Err: err}, b)
		return
	}
	if tx.header.Dest.IsLarge() || tx.header.Src.IsLarge() {
		err := c.out.fieldError("dest_nid, src_nid", tx.header.Dest, errLarge)
		c.end(tx, &Failure{Health: LocalError, Errno: syscall.EINVAL, Err: err}, b)
		return
	}
	q.push(tx)
	c.pump(now, b)
}

// end completes a message with the failure f, which may be nil. It does nothing if the message has already
// completed.
func (c *Conn) end(tx *Tx, f *Failure, b *Batch) {
	c.endWith(tx, Done{Tx: tx, Failure: f}, b)
}

// endWith completes a message with the result d: in Batch.Placed for the answer to an arrival, and in
// Batch.Done for any other message. It does nothing if the message has already completed.
func (c *Conn) endWith(tx *Tx, d Done, b *Batch) {
	if !tx.active {
		return
	}
	tx.active = false
	if tx.posted > 0 {
		for i := range c.slots {
			if c.slots[i].tx == tx {
				c.slots[i].tx = nil
			}
		}
	}
	tx.source, tx.zip = nil, zipper{}
	if rx := tx.rx; rx != nil {
		rx.state = rxPlaced
		b.Placed = append(b.Placed, Placed{Rx: rx, Failure: d.Failure})
		return
	}
	b.Done = append(b.Done, d)
}

// Recall cancels the messages of which nothing was posted and for which match returns true. They complete with
// Done.Recalled set.
func (c *Conn) Recall(match func(*Tx) bool, b *Batch) {
	for _, q := range c.waiting() {
		kept := queue{}
		for q.head != nil {
			tx := q.pop()
			if !match(tx) {
				kept.push(tx)
				continue
			}
			if q != c.reserving(tx) && tx.form.reserves() {
				c.credits.Answered()
			}
			c.endWith(tx, Done{Tx: tx, Recalled: true, Failure: &Failure{Health: LocalAborted, Errno: syscall.ECANCELED}}, b)
		}
		*q = kept
	}
}

// String returns the state and the credits, for scripts and displays.
func (c *Conn) String() string {
	return fmt.Sprintf("%v: %v", c.state, &c.credits)
}

// order is the byte order in which this node sends (o2iblnd 4).
var order = binary.LittleEndian
