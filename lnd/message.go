package lnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Tx is an outgoing message. The node embeds it in its own record of the message and reuses the record, so that
// sending allocates nothing.
type Tx struct {
	// Header is the LNet header. Its PayloadLength must equal Payload.Length.
	Header lnet.Header
	// To is the process that the message is sent to directly: the destination or a router.
	To lnet.ProcessID
	// Neighbour is part of the node's record of To. It is nil if there is no such record.
	Neighbour *Neighbour
	// Payload is sent after the header. It must not change until the message is complete.
	Payload memory.Vector
	// More means that the same goroutine sends more messages immediately after this one. The driver may wait
	// for them and write them together with this one. It must not wait longer than until another goroutine has
	// run, because the other messages may go to another peer, or may never be sent.
	More bool
	// Urgent means that this node or the next one may be considered dead if the message, such as a ping or its
	// answer, is late. A driver sends it before other messages that wait. Urgent messages keep their order
	// among themselves.
	Urgent bool
	// Reconnect means that a driver without a connection to To tries to connect at once, even if it pauses after
	// failed attempts. The node limits how often it sends such messages. A driver may ignore it.
	Reconnect bool
	// Sink, in a GET, is where the answer is to be stored. A driver that can let the peer write there by RDMA
	// does so and sets Replied. Other drivers ignore Sink.
	Sink memory.Vector

	// Replied is set by the driver before it completes a GET whose answer is already in Sink. No REPLY message
	// will arrive for it.
	Replied bool
	// ReplyLength is the length of the answer in bytes, if Replied is set.
	ReplyLength int

	// Done is called on completion. Required.
	Done Sender
}

// Neighbour lets a driver find its own record of a neighbour without a search. The node has one for each NID
// that it sends messages to, and all interfaces that reach the NID share it. The zero value is empty.
type Neighbour struct{ record atomic.Pointer[any] }

// Record returns the record that was set last. It is nil if none was set, or if n is nil.
func (n *Neighbour) Record() any {
	if n == nil {
		return nil
	}
	if r := n.record.Load(); r != nil {
		return *r
	}
	return nil
}

// SetRecord sets the record to *r, which must not change any more. If r is nil, there is no record. It does
// nothing if n is nil.
func (n *Neighbour) SetRecord(r *any) {
	if n != nil {
		n.record.Store(r)
	}
}

// RemoveRecord removes the record if it was set with r, so that it is not kept in memory. It does nothing if n
// is nil.
func (n *Neighbour) RemoveRecord(r *any) {
	if n != nil {
		n.record.CompareAndSwap(r, nil)
	}
}

// Sender is notified when a message has been sent.
type Sender interface {
	// Sent reports that m is complete. If err is nil, all of m has been passed to the transport, and the driver
	// no longer needs its memory. This does not mean that m has arrived; the layer above has to find that out.
	// StatusOf classifies a non-nil err. Sent runs in a goroutine of the driver, or of a caller of Send or
	// Poller.Poll. It must not block. It may send messages; the driver then does not call Sent recursively.
	Sent(m *Tx, err error)
}

// Rx is an incoming message. It belongs to the driver. The node may use it from Upper.Arrived until
// Receiver.Received has returned or, if the node drops the message, until it calls Interface.Receive.
type Rx struct {
	// Header is the LNet header as it was received.
	Header lnet.Header
	// From is the process at the other end of the connection: the source, or a router.
	From lnet.ProcessID
	// RDMA means that the driver can move the payload by RDMA. The node then answers a GET by Placement.Reply,
	// not by a REPLY message.
	RDMA bool

	// Driver is for use by the driver, and Upper by the node. A driver that uses an Rx for several messages of a
	// connection keeps Upper. If it uses the Rx for another interface, it sets Upper to nil before.
	Driver, Upper any
}

// Placement specifies what happens to an arrived message. The zero value drops the message: the payload is
// discarded, and nothing is reported.
type Placement struct {
	// Memory is where the first Memory.Length bytes of the payload are stored. The rest is discarded.
	// Memory.Length is at most the length of the payload.
	Memory memory.Vector
	// Reply is the answer to a GET that arrived with RDMA set.
	Reply memory.Vector
	// Done is called when the payload is in Memory, or when Reply has been moved. If it is nil, the
	// message is dropped.
	Done Receiver
}

// Receiver is notified when the payload of an arrived message is in place.
type Receiver interface {
	// Received reports that m is complete. If err is nil, every byte of Placement.Memory has been written, or
	// Placement.Reply has been moved. Otherwise the contents of the memory are undefined. Received runs in a
	// goroutine of the driver, or of a caller of Receive or Poller.Poll. It must not block. It may send
	// messages.
	Received(m *Rx, err error)
}
