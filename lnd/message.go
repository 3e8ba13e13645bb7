package lnd

import (
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// Tx is a message on its way out. The node embeds it in its own message
// record and reuses it; sending allocates nothing.
type Tx struct {
	// Header goes on the wire. PayloadLength equals Payload.Length.
	Header lnet.Header
	// To is the next hop: the final destination or a router.
	To lnet.ProcessID
	// Payload is what follows the header; unchanged until completion.
	Payload memory.Vector
	// More says that more messages follow at once from the same goroutine. A driver
	// may keep this one for them, to write all together, for as long as it takes
	// another goroutine to run: what follows may go elsewhere, or nothing may.
	More bool
	// Urgent says that peers may count as dead if the message is late. A driver sends it before others
	// that wait, and keeps the order of urgent messages.
	Urgent bool
	// Sink, in a GET, is where the answer belongs. A driver that can have it
	// placed there by RDMA does so and sets Replied; others ignore it.
	Sink memory.Vector

	// Replied is set by the driver before completion when the answer to a
	// GET stands in Sink already, so that no REPLY message will come.
	Replied bool
	// ReplyLength is, with Replied, the length of the answer in bytes.
	ReplyLength int

	// Done hears of the completion. Required.
	Done Sender
}

// Sender is told when a message has left.
type Sender interface {
	// Sent completes m: err is nil when all of m has been handed to the
	// transport and the driver needs its memory no more, else an error that
	// StatusOf classifies. Whether it has arrived is for the layer above to
	// find out. It runs in a goroutine of the
	// driver or in that of a caller of Send or of Poller.Poll, must not block, and may send
	// again; the driver turns such sends into iteration, not recursion.
	Sent(m *Tx, err error)
}

// Rx is a message on its way in. It belongs to the driver; the node may use it
// from Upper.Arrived until it is completed (Receiver.Received returned), or,
// if it is dropped, until Interface.Receive is called.
type Rx struct {
	// Header is the message's header as received.
	Header lnet.Header
	// From is the process at the other end of the connection: the source, or
	// a router.
	From lnet.ProcessID
	// RDMA tells that the payload can be moved by the driver itself; a GET
	// is then answered through Placement.Reply, without a REPLY message.
	RDMA bool

	// Driver is the driver's own; nobody else touches it.
	Driver any
}

// Placement says what becomes of an arrived message's payload. The zero value
// drops the message: the payload is consumed and nothing is reported.
type Placement struct {
	// Memory takes the first Memory.Length bytes of the payload; the rest is
	// consumed and discarded. Its length is at most the payload's.
	Memory memory.Vector
	// Reply, for a GET that arrived with RDMA set, is the answer.
	Reply memory.Vector
	// Done hears when the bytes stand in Memory (or Reply has been moved).
	// Nil drops the message.
	Done Receiver
}

// Receiver is told when an arrived message's payload is in place.
type Receiver interface {
	// Received completes m: with a nil error every byte of
	// Placement.Memory has been written; with an error its contents are
	// undefined. It runs in a goroutine of the driver or in that of a
	// caller of Receive or of Poller.Poll, must not block, and may send.
	Received(m *Rx, err error)
}
