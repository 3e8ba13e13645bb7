package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Options say how a connection works; the zero value has the defaults.
type Options struct {
	Flow Flow
	// Timeout is how long a message may be queued or unanswered (o2iblnd 13.2), and
	// Keepalive how long nothing may be sent; negative: for ever.
	Timeout, Keepalive time.Duration
	// Gather is how many pieces an RDMA WRITE takes, and SendQueue how many work
	// requests the queue pair (o2iblnd 11). Who has a source of more pieces than
	// Gather times the peer's fragments puts it together.
	Gather, SendQueue int
	Checksum          Variant
	Check             Checking
	// Number tells the connections of a peer apart, for cookies.
	Number uint16
}

// Defaults (o2iblnd 15).
const (
	defaultTimeout   = 50 * time.Second
	defaultKeepalive = 100 * time.Second
	defaultGather    = 2
	defaultSendQueue = 1024
)

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

// State is how far a connection has come (o2iblnd 12.1).
type State uint8

// The states.
const (
	Init          State = iota
	ActiveConnect       // we have asked
	PassiveWait         // we have accepted
	Established
	Closing      // to be taken down
	Disconnected // and nothing is left of it
)

// String is "ESTABLISHED".
func (s State) String() string {
	return [...]string{"INIT", "ACTIVE_CONNECT", "PASSIVE_WAIT", "ESTABLISHED", "CLOSING", "DISCONNECTED"}[s]
}

// Conn is one connection, a queue pair, as a machine without I/O: events go in, with
// the time, and what is to be done is appended to a Batch.
//
// A driver posts ReceiveBuffers receive buffers, numbered from 0, then calls Connect
// or Accept, and Establish when the CM says so. Then Immediate, Put and Get
// send; Received, Completed and Failed tell of completions; Consumed, Sink, Reply and
// Refuse answer arrivals; Tick tells of the time. A connection ends by Batch.Disconnect, of
// its own accord or by Close, and then by Flushed, once, when the queue pair touches
// no memory any more: all that was under way is completed by then, each exactly once.
type Conn struct {
	o       Options
	session Session
	state   State
	credits Credits

	// PUT_REQs and GET_REQs that have no place for an answer yet are in reserved, what needs credits is in
	// normal, what needs none in prompt. Urgent messages have queues that go before reserved and normal.
	urgentReserved, reserved, urgent, normal, prompt queue
	requests                                         requests
	slots                                            []slot
	oldest                                           int // slot that is used next
	room                                             int // work requests that the send queue has room for

	rxs   []*Rx // all there are
	free  []*Rx
	early []early // what has come before Establish

	in, out  Message // for decoding and encoding
	alive    time.Time
	sent     time.Time
	deadline time.Time // to connect
	failure  *Failure
}

// slot is a chain that is posted.
type slot struct {
	used  bool
	part  bool
	form  Type
	tx    *Tx // nil: a NOOP, or what it belongs to has ended
	count int // work requests
}

// early is a message that has come before its connection was established.
type early struct {
	buffer int
	data   []byte
}

// NewConn returns a connection in state Init.
func NewConn(o Options) *Conn {
	c := &Conn{o: o.resolved()}
	c.requests.connection = o.Number
	return c
}

// State is the connection's.
func (c *Conn) State() State { return c.state }

// Session is what was agreed upon; zero before Establish.
func (c *Conn) Session() *Session { return &c.session }

// Credits are for display.
func (c *Conn) Credits() *Credits { return &c.credits }

// Alive is when the peer last gave a sign of life; zero if never.
func (c *Conn) Alive() time.Time { return c.alive }

// Failure is why the connection has ended, or is about to; nil: it is not.
func (c *Conn) Failure() *Failure { return c.failure }

// Slots is how many chains may be posted at a time; constant.
func (c *Conn) Slots() int { return max(c.o.Flow.ConcurrentSends, v1MinSends) + 1 }

// Connect notes that the CM was asked for the connection.
func (c *Conn) Connect(now time.Time) {
	c.state = ActiveConnect
	c.deadline = now.Add(ConnectTimeout(c.o.Timeout))
}

// Accept notes that the CM was told to accept it. There is no time limit but the CM's
// (o2iblnd 12.1).
func (c *Conn) Accept() { c.state = PassiveWait }

// Establish makes the connection usable. What has come before is looked at now
// (o2iblnd 3.3).
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

// Immediate sends a message with its payload, h.PayloadLength bytes: see
// Send.Payload.
func (c *Conn) Immediate(now time.Time, tx *Tx, h *lnet.Header, b *Batch) {
	c.begin(now, tx, Immediate, h)
	c.enqueue(now, tx, c.credited(tx), b)
}

// Put sends a message whose payload the peer shall have written by RDMA from source,
// which must stay as it is until tx is done.
func (c *Conn) Put(now time.Time, tx *Tx, h *lnet.Header, source []Segment, b *Batch) {
	c.begin(now, tx, PutReq, h)
	tx.source = source
	c.enqueue(now, tx, c.reserving(tx), b)
}

// Get sends a GET whose answer the peer writes into sink by RDMA. The memory must not
// be touched until tx is done. sink shall be as long as the answer will be: see
// Done.Sure. One that no peer may be sent fails.
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

// credited is where a message waits for credits.
func (c *Conn) credited(tx *Tx) *queue {
	if tx.Urgent {
		return &c.urgent
	}
	return &c.normal
}

// reserving is where a PUT_REQ or GET_REQ waits for a place for its answer.
func (c *Conn) reserving(tx *Tx) *queue {
	if tx.Urgent {
		return &c.urgentReserved
	}
	return &c.reserved
}

// waiting are the queues of messages of which nothing was posted.
func (c *Conn) waiting() [4]*queue {
	return [...]*queue{&c.urgentReserved, &c.reserved, &c.urgent, &c.normal}
}

func (c *Conn) begin(now time.Time, tx *Tx, form Type, h *lnet.Header) {
	tx.begin(form, c.limit(now))
	tx.header = *h
	tx.rx = nil
}

// limit is the deadline of what begins now; zero: there is none.
func (c *Conn) limit(now time.Time) time.Time {
	if c.o.Timeout < 0 {
		return time.Time{}
	}
	return now.Add(c.o.Timeout)
}

var errNotUp = errors.New("the connection is not established")

// enqueue queues what was begun.
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

// end completes a message, once.
func (c *Conn) end(tx *Tx, f *Failure, b *Batch) {
	c.endWith(tx, Done{Tx: tx, Failure: f}, b)
}

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

// Recall takes back messages of which nothing was posted, and for which match is true.
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

// String is for scripts and displays.
func (c *Conn) String() string {
	return fmt.Sprintf("%v: %v", c.state, &c.credits)
}

// order is the one in which we send (o2iblnd 4).
var order = binary.LittleEndian
