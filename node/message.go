package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// message is the record of one message, from the call or the arrival to its
// last completion. An arrived PUT's record becomes its ACK and a GET's its
// REPLY. Records are pooled.
type message struct {
	tx   lnd.Tx
	op   portals.Operation // with the event
	node *Node

	ni   *ni      // the NI that it travels on
	peer *peerNI  // next hop, or the neighbour it came from; nil on 0@lo
	rx   *lnd.Rx  // the arrival that has no placement yet
	next *message // messageQueue's

	source lnet.NID // that the path must begin with, if not zero or AnyNID
	// from is the neighbour that brought what m answers or, with forward,
	// m itself.
	from *peerNI
	over lnet.Net // that it shall go by, if not 0: a check of a router

	forward bool    // this node is but a router for it
	passage uint8   // how far it has come in the router
	buffer  *buffer // of the router, that its payload is in

	started  int64 // when the request was made; see Node.now
	deadline int64 // 0: none yet
	bound    bool  // op is an operation on an MD
	held     uint8 // credits held: heldNone, heldPeer, heldBoth
	waited   bool  // it was on a queue for tx credits
	counted  bool  // in stats.committed
	recovery bool  // a recovery ping, for this very NID
	reserved bool  // a request to the portal that is LNet's own
	delayed  bool  // delay rules have been asked about this attempt
	retries  int
	step     step  // what comes next, in runQueue
	err      error // of stepEnd
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

// withdraw takes out the messages that which says yes to, in order.
func (q *messageQueue) withdraw(which func(*message) bool) (out messageQueue) {
	all := *q
	*q = messageQueue{}
	for m := all.pop(); m != nil; m = all.pop() {
		if which(m) {
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

// freeMessage takes a record back; the caller was its owner.
func (n *Node) freeMessage(m *message) {
	if m.counted {
		n.stats.committed.Add(-1)
	}
	m.tx.Payload, m.tx.Sink = lnd.Memory{}, lnd.Memory{}
	m.tx.Replied, m.tx.ReplyLength = false, 0
	m.op = portals.Operation{Owner: m.op.Owner}
	m.ni, m.peer, m.rx, m.next = nil, nil, nil, nil
	m.source, m.from, m.over = lnet.NID{}, nil, 0
	m.forward, m.passage, m.buffer = false, passageNone, nil
	m.started, m.deadline, m.held = 0, 0, heldNone
	m.bound, m.waited, m.counted, m.recovery, m.reserved, m.delayed = false, false, false, false, false, false
	m.retries, m.err = 0, nil
	n.messages.Put(m)
}

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

// due sets when m must have left, unless it goes another way within one attempt; a
// router gives everything a try (lnet-core 9.3).
func (m *message) due() {
	n := m.node
	if m.forward || m.deadline != 0 {
		return
	}
	m.deadline = n.now() + n.parameters.Load().lifetime(m.ni.iface.Timeout())
}

// finish ends m's operation on its MD, whose handler hears of it.
func (m *message) finish(err error) {
	m.bound = false
	m.node.table.Finish(&m.op, err)
}

// aborted says that m's MD was unlinked while m was under way.
func (m *message) aborted() bool { return m.bound && m.node.table.Aborted(&m.op) }

// messageOf is the message that an operation belongs to.
func messageOf(o *portals.Operation) *message { return o.Owner.(*message) }
