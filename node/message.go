package node

import (
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/memory"
)

// message is the record of one message, from the call or the arrival to its
// last completion; ending.go has its states. An arrived PUT's record becomes its
// ACK and a GET's its REPLY. Records are pooled.
type message struct {
	tx   lnd.Tx
	op   portals.Operation // with the event
	node *Node
	next *message // messageQueue's

	ni      *ni     // the NI that it travels on
	peer    *peerNI // next hop, or the neighbour it came from; nil on 0@lo
	bound   bool    // op is an operation on an MD
	counted bool    // in stats.committed
	step    step    // what comes next, in runQueue
	err     error   // of that step, or why it shall not be sent

	arrival arrival
	out     outgoing
	passage passage
}

// arrival is what a message is that came to this node, or that answers one.
type arrival struct {
	rx     *lnd.Rx // while it has no placement
	from   *peerNI // the neighbour that brought it; nil on 0@lo
	source *peerNI // with the NID that it says it is from; nil: there is none
}

// outgoing is what a message is that leaves this node, or shall.
type outgoing struct {
	source   lnet.NID       // that the path must begin with, if not zero or AnyNID
	over     lnet.Net       // that it shall go by, if not 0: a check of a router
	recovery bool           // a recovery ping, for this very NID
	reserved bool           // a request to the portal that is LNet's own
	region   *memory.Region // of the MD's first byte, where NUMA matters; nil: none
	urgent   bool           // made here, such a request or the answer to one: peers count as dead without it

	started  int64 // when the request was made; see Node.now
	deadline int64 // 0: none yet
	retries  int
	held     uint8 // credits held: heldNone, heldPeer, heldBoth
	waited   bool  // it was on a queue for tx credits
	delayed  bool  // delay rules have been asked about this attempt
}

// passage is what a message is for which this node is but a router.
type passage struct {
	forward bool
	stage   uint8   // how far it has come: passageNone, ...
	buffer  *buffer // that its payload is in
}

// Credits are taken in this order, and never skipped but on 0@lo.
const (
	heldNone = iota
	heldPeer
	heldBoth
)

// messageQueue is a FIFO through message.next.
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

// append moves the messages of another queue to the end of this one.
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

// withdraw takes out the messages for which match is true, in order.
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

// pop returns the oldest message, or nil.
func (q *messageQueue) pop() *message {
	m := q.head
	if m != nil {
		q.head, m.next = m.next, nil
	}
	return m
}

// newMessage returns a record whose fields but node, tx.Done and op.Owner are
// zero, or are set by everyone who uses them: tx.Header, tx.To, op.Event.
func (n *Node) newMessage() *message { return n.messages.Get().(*message) }

// newArrival is the record of a message that has come to i, brought by a neighbour.
func (n *Node) newArrival(i *ni, rx *lnd.Rx, from *peerNI) *message {
	m := n.newMessage()
	m.commit(i, from)
	m.arrival = arrival{rx: rx, from: from}
	return m
}

// makeMessage makes a record for the pool.
func (n *Node) makeMessage() any {
	m := &message{node: n}
	m.tx.Done = m
	m.op.Owner = m
	return m
}

// free takes m's record back; what m held in the router goes to those who wait
// for it. The caller was m's owner.
func (m *message) free() {
	n := m.node
	var ready messageQueue
	if m.passage.forward {
		m.leaveRouter(&ready)
	}
	if m.counted {
		n.stats.committed.Add(-1)
	}
	m.tx.Payload, m.tx.Sink = memory.Vector{}, memory.Vector{}
	m.tx.More, m.tx.Urgent, m.tx.Replied, m.tx.ReplyLength = false, false, false, 0
	m.op = portals.Operation{Owner: m.op.Owner}
	m.ni, m.peer, m.next = nil, nil, nil
	m.bound, m.counted, m.err = false, false, nil
	m.arrival, m.out, m.passage = arrival{}, outgoing{}, passage{}
	n.messages.Put(m)
	if ready.head != nil {
		n.run(&ready)
	}
}

// now is the time since the node's start in ns, never 0.
func (n *Node) now() int64 { return int64(time.Since(n.start)) + 1 }

// isAnswer tells whether m, on its way out, is an ACK or a REPLY.
func (m *message) isAnswer() bool {
	return m.tx.Header.Type == lnet.MsgAck || m.tx.Header.Type == lnet.MsgReply
}

// commit counts m as under way on i (lnet-core 2.3).
func (m *message) commit(i *ni, p *peerNI) {
	m.ni, m.peer = i, p
	m.count()
}

func (m *message) count() {
	m.counted = true
	s := &m.node.stats
	raise(&s.committedMax, s.committed.Add(1))
}

// aborted says that m's MD was unlinked while m was under way.
func (m *message) aborted() bool { return m.bound && m.node.table.Aborted(&m.op) }

// messageOf is the message that an operation belongs to.
func messageOf(o *portals.Operation) *message { return o.Owner.(*message) }
