package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// message is the record of one message, from the call or the arrival to its
// last completion. An arrived PUT's record becomes its ACK and a GET's its
// REPLY. Records are pooled.
type message struct {
	tx    lnd.Tx
	event Event
	node  *Node

	ni   *ni      // the NI that it travels on
	peer *peerNI  // next hop, or the neighbour it came from; nil on 0@lo
	md   *md      // the MD that it holds a reference to
	rx   *lnd.Rx  // the arrival that has no placement yet
	next *message // messageQueue's

	// Of an arrived request.
	handle       lnet.Handle // where the ACK or REPLY belongs
	wanted       int         // payload length of a PUT, sink length of a GET
	remoteOffset int
	ack          bool // an ACK is due

	started  int64 // when the request was made; see Node.now
	deadline int64 // 0: none yet
	held     uint8 // credits held: heldNone, heldPeer, heldBoth
	waited   bool  // it was on a credit queue
	counted  bool  // in stats.committed
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

// pop returns the oldest message, or nil.
func (q *messageQueue) pop() *message {
	m := q.head
	if m != nil {
		q.head, m.next = m.next, nil
	}
	return m
}

// newMessage returns a record whose fields but node and tx.Done are zero, or
// are set by everyone who uses them: tx.Header, tx.To, event.
func (n *Node) newMessage() *message { return n.messages.Get().(*message) }

// freeMessage takes a record back; the caller was its owner.
func (n *Node) freeMessage(m *message) {
	if m.counted {
		n.stats.committed.Add(-1)
	}
	m.tx.Payload, m.tx.Sink = lnd.Memory{}, lnd.Memory{}
	m.tx.Replied, m.tx.ReplyLength = false, 0
	m.event.Memory, m.event.Bytes, m.event.UserPtr, m.event.Err = lnd.Memory{}, nil, nil, nil
	m.ni, m.peer, m.md, m.rx, m.next = nil, nil, nil, nil, nil
	m.handle, m.wanted, m.remoteOffset = lnet.Handle{}, 0, 0
	m.ack, m.waited, m.counted = false, false, false
	m.started, m.deadline, m.held = 0, 0, heldNone
	n.messages.Put(m)
}

// isAnswer tells whether m, on its way out, is an ACK or a REPLY.
func (m *message) isAnswer() bool {
	return m.tx.Header.Type == lnet.MsgAck || m.tx.Header.Type == lnet.MsgReply
}

// commit counts m as under way on i (lnet-core 2.3).
func (m *message) commit(i *ni, p *peerNI) {
	m.ni, m.peer = i, p
	m.counted = true
	s := &m.node.stats
	raise(&s.committedMax, s.committed.Add(1))
}
