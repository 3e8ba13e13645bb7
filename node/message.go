package node

import (
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// message is the record of one message from the call or the arrival to its end; ending.go
// describes its states. The record of an arrived PUT is reused for its ACK, and that of a
// GET for its REPLY. Unused records are kept in a pool.
type message struct {
	tx   lnd.Tx
	op   portals.Operation // including the event
	node *Node
	next *message // used by messageQueue

	ni      *ni     // the NI through which the message arrived or leaves
	peer    *peerNI // next hop, or the neighbour that sent it; nil on 0@lo
	bound   bool    // op is an operation on an MD
	counted bool    // in stats.committed
	step    step    // next step, in runQueue
	err     error   // error with which the next step ends m; in resendQueue, the reason not to send m

	arrival arrival
	out     outgoing
	passage passage
}

// arrival describes how a message arrived. The ACK or REPLY to it, which is sent with the
// same record, keeps this description.
type arrival struct {
	rx     *lnd.Rx // the driver's message; nil after the driver has called Received
	from   *peerNI // the neighbour that sent it; nil on 0@lo
	source *peerNI // peer NI of the source NID, or nil
}

// outgoing describes a message that leaves this node.
type outgoing struct {
	source   lnet.NID       // required local NID, if not zero or AnyNID
	over     lnet.Net       // required net of the next hop, if not 0; set for the check of a gateway
	recovery bool           // a recovery ping, which must go to exactly this NID
	reserved bool           // a request to the portal reserved for LNet
	region   *memory.Region // of the MD's first byte, if NUMA matters; otherwise nil
	// urgent is set for requests of this node to the reserved portal and for answers to such
	// requests. Urgent messages precede others in queues, because a node whose pings are not
	// answered in time counts as dead.
	urgent bool

	started  int64 // when the request was made; see Node.now
	deadline int64 // 0 if not set
	retries  int
	held     uint8 // credits held: heldNone, heldPeer, heldBoth
	waited   bool  // it was queued for credits on its current path
	delayed  bool  // delay rules were applied to this attempt
}

// passage describes a message that this node forwards.
type passage struct {
	forward bool
	stage   uint8   // passageNone and so on
	buffer  *buffer // buffer that holds the payload
}

// Values of outgoing.held, in the order in which the credits are acquired. Messages on
// 0@lo need no credits.
const (
	heldNone = iota
	heldPeer
	heldBoth
)

// messageQueue is a FIFO, linked through message.next.
type messageQueue struct{ head, tail *message }

func (q *messageQueue) push(m *message) {
	m.next = nil
	if q.head == nil {
		q.head = m
	} else {
		q.tail.next = m
	}
	q.tail = m
}

// append moves all messages of o to the end of q.
func (q *messageQueue) append(o *messageQueue) {
	switch {
	case o.head == nil:
		return
	case q.head == nil:
		q.head = o.head
	default:
		q.tail.next = o.head
	}
	q.tail = o.tail
	*o = messageQueue{}
}

// withdraw removes and returns the messages for which match returns true, in order.
func (q *messageQueue) withdraw(match func(*message) bool) (out messageQueue) {
	all := *q
	*q = messageQueue{}
	for m := all.pop(); m != nil; m = all.pop() {
		if match(m) {
			out.push(m)
		} else {
			q.push(m)
		}
	}
	return out
}

// pop removes and returns the oldest message. It returns nil if q is empty.
func (q *messageQueue) pop() *message {
	m := q.head
	if m != nil {
		q.head, m.next = m.next, nil
	}
	return m
}

// newMessage returns a record from the pool. All fields are zero, except node, tx.Done and
// op.Owner, which are set, and tx.Header, tx.To and op.Event, which hold old values and
// must be set by the caller.
func (n *Node) newMessage() *message { return n.messages.Get().(*message) }

// newArrival returns a record for a message that arrived on i from a neighbour.
func (n *Node) newArrival(i *ni, rx *lnd.Rx, from *peerNI) *message {
	m := n.newMessage()
	m.commit(i, from)
	m.arrival = arrival{rx: rx, from: from}
	return m
}

// makeMessage allocates a record for the pool.
func (n *Node) makeMessage() any {
	m := &message{node: n}
	m.tx.Done = m
	m.op.Owner = m
	return m
}

// free returns m's record to the pool. If m was being forwarded, free releases its router
// credits and resumes the messages that receive them. The caller must own m.
func (m *message) free() {
	n := m.node
	var ready messageQueue
	if m.passage.forward {
		m.releaseRouter(&ready)
	}
	if m.counted {
		n.stats.committed.Add(-1)
	}
	m.tx.Payload, m.tx.Sink = memory.Vector{}, memory.Vector{}
	m.tx.More, m.tx.Urgent, m.tx.Reconnect = false, false, false
	m.tx.Replied, m.tx.ReplyLength = false, 0
	m.op = portals.Operation{Owner: m.op.Owner}
	m.ni, m.peer, m.next = nil, nil, nil
	m.bound, m.counted, m.err = false, false, nil
	m.arrival, m.out, m.passage = arrival{}, outgoing{}, passage{}
	n.messages.Put(m)
	if ready.head != nil {
		n.run(&ready)
	}
}

// now returns the time since the node was created in nanoseconds. It is never 0.
func (n *Node) now() int64 { return int64(time.Since(n.start)) + 1 }

// isAnswer reports whether the outgoing message m is an ACK or a REPLY.
func (m *message) isAnswer() bool {
	return m.tx.Header.Type == lnet.MsgAck || m.tx.Header.Type == lnet.MsgReply
}

// commit assigns m to the NI i and the neighbour p, and counts it as under way (lnet-core
// 2.3).
func (m *message) commit(i *ni, p *peerNI) {
	m.ni, m.peer = i, p
	m.count()
}

func (m *message) count() {
	m.counted = true
	s := &m.node.stats
	raise(&s.committedMax, s.committed.Add(1))
}

// aborted reports whether m's MD was unlinked while m was under way.
func (m *message) aborted() bool { return m.bound && m.node.table.Aborted(&m.op) }

// messageOf returns the message to which the operation o belongs.
func messageOf(o *portals.Operation) *message { return o.Owner.(*message) }
