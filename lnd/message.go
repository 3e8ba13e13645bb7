package lnd

import (
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Tx is an outgoing message. The node embeds it in its own message record and reuses it; sending
// allocates nothing.
type Tx struct {
	// Header is the message header. Its PayloadLength equals Payload.Length.
	Header lnet.Header
	// To is the next hop: the final destination or a router.
	To lnet.ProcessID
	// Payload follows the header. It must not change until completion.
	Payload memory.Vector
	// More means that the same goroutine sends more messages immediately after this one. The driver may
	// hold this message and write it together with them, but only until another goroutine has had a
	// chance to run: the following messages may go to another peer, or may never come.
	More bool
	// Urgent means that peers may be declared dead if the message is late. A driver sends it before
	// other waiting messages. Urgent messages keep their order.
	Urgent bool
	// Sink, in a GET, is the destination of the answer. A driver that can let the peer write there by
	// RDMA does so and sets Replied; other drivers ignore it.
	Sink memory.Vector

	// Replied is set by the driver before completion if the answer to a GET is already in Sink. No
	// REPLY message will follow.
	Replied bool
	// ReplyLength is the length of the answer in bytes. It is valid if Replied is set.
	ReplyLength int

	// Done is called on completion. Required.
	Done Sender
}

// Sender is notified when a message has been sent.
type Sender interface {
	// Sent completes m. If err is nil, all of m has been passed to the transport and the driver no
	// longer needs its memory. This does not mean that m has arrived; the layer above has to find that
	// out. StatusOf classifies a non-nil err. Sent runs in a goroutine of the driver, or of a caller of
	// Send or Poller.Poll. It must not block. It may send again; the driver handles such sends by
	// iteration, not recursion.
	Sent(m *Tx, err error)
}

// Rx is an incoming message. The driver owns it. The node may use it from Upper.Arrived until
// Receiver.Received has returned or, if the message is dropped, until Interface.Receive is called.
type Rx struct {
	// Header is the message's header as received.
	Header lnet.Header
	// From is the process at the other end of the connection: the source, or a router.
	From lnet.ProcessID
	// RDMA means that the driver can move the payload itself. A GET is then answered through
	// Placement.Reply, without a REPLY message.
	RDMA bool

	// Driver is for the driver's own use.
	Driver any
}

// Placement specifies what happens to the payload of an arrived message. The zero value drops the
// message: the payload is consumed and nothing is reported.
type Placement struct {
	// Memory receives the first Memory.Length bytes of the payload. The rest is consumed and discarded.
	// Its length is at most the payload's.
	Memory memory.Vector
	// Reply is the answer to a GET that arrived with RDMA set.
	Reply memory.Vector
	// Done is called when the payload is in Memory, or when Reply has been moved. If it is nil, the
	// message is dropped.
	Done Receiver
}

// Receiver is notified when the payload of an arrived message is in place.
type Receiver interface {
	// Received completes m. If err is nil, every byte of Placement.Memory has been written; otherwise
	// its contents are undefined. Received runs in a goroutine of the driver, or of a caller of Receive
	// or Poller.Poll. It must not block, and may send.
	Received(m *Rx, err error)
}
