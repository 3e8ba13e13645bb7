package protocol

// Batch holds the actions that a connection requests. Calls of the connection append to it. The
// caller then carries it out in this order: post Receives, post Sends in order, Disconnect, and
// pass the rest to the upper layer. Then it calls Reset. Once the slices have grown, nothing is
// allocated.
//
// Between two calls of Reset a batch belongs to one connection.
type Batch struct {
	// Receives are the numbers of receive buffers to post again. They are posted before Sends,
	// which may carry the credits for them (o2iblnd 9.4).
	Receives []int
	// Sends are chains of work requests; Writes and Pieces belong to them.
	Sends  []Send
	Writes []Write
	Pieces []Segment
	// Disconnect requests to end the connection because of Failure. It is set once.
	Disconnect bool
	Failure    *Failure
	// Arrivals are messages for LNet. Each must be answered by Consumed, Sink, Reply or Refuse of
	// the connection. If LNet finds a protocol violation, the caller also calls Close.
	Arrivals []*Rx
	// Withdrawn are arrivals whose payload will not arrive. They must be answered nevertheless.
	Withdrawn []*Rx
	// Done are messages that were sent or have failed. They belong to the caller again.
	Done []Done
	// Placed are arrivals that are complete. The caller returns them with Release.
	Placed []Placed

	heads []byte
}

// Send is a chain to post on the queue pair: unsignalled RDMA WRITEs, followed by a signalled SEND.
// A Part has no SEND, and its last WRITE is signalled.
type Send struct {
	// Slot is the number by which the caller reports the completion. Each number from 0 to
	// Slots()-1 is used by one chain at a time, so each may have its own message buffer.
	Slot int
	Part bool
	// First is the index in Batch.Writes of the first WRITE of the chain, and Writes their number.
	First, Writes int
	// Payload is set for an IMMEDIATE whose payload follows Head. If checksums are sent, the caller
	// seals both together.
	Payload *Tx

	from, to int // in heads
}

// Done is the result of a message that was sent.
type Done struct {
	Tx *Tx
	// Failure is nil if the message succeeded.
	Failure *Failure
	// Recalled is set if no byte of the message was sent, and no side failed.
	Recalled bool
	// Replied is set if the answer to a GET is in its sink. It has Length bytes, of which the first
	// Sure are certainly there. If Sure is less than Length, a kernel may have left out the rest
	// (o2iblnd 18, row 1).
	Replied      bool
	Length, Sure int
}

// Placed is the result of an arrival.
type Placed struct {
	Rx *Rx
	// Failure is nil if the payload is in place or the answer has been written.
	Failure *Failure
}

// Head returns the beginning of a chain's message, or all of it. It is valid until Reset. A Part
// has no head.
func (b *Batch) Head(s *Send) []byte { return b.heads[s.from:s.to:s.to] }

// Empty reports whether the batch holds no actions.
func (b *Batch) Empty() bool {
	return len(b.Receives)+len(b.Sends)+len(b.Arrivals)+len(b.Withdrawn)+len(b.Done)+len(b.Placed) == 0 && !b.Disconnect
}

// Reset empties the batch but keeps its memory.
func (b *Batch) Reset() {
	clear(b.Sends)
	clear(b.Arrivals)
	clear(b.Withdrawn)
	clear(b.Done)
	clear(b.Placed)
	*b = Batch{
		Receives: b.Receives[:0], Sends: b.Sends[:0], Writes: b.Writes[:0], Pieces: b.Pieces[:0],
		Arrivals: b.Arrivals[:0], Withdrawn: b.Withdrawn[:0], Done: b.Done[:0], Placed: b.Placed[:0],
		heads: b.heads[:0],
	}
}
