package protocol

// Batch contains the actions that a connection requests. The connection's methods append to it. The caller then
// executes the actions in this order: post Receives, post Sends in order, Disconnect, and pass the rest to the
// upper layer. Then it calls Reset. A batch is reused, so that nothing is allocated once its slices have grown.
//
// Between two calls of Reset a batch may be used by only one connection.
type Batch struct {
	// Receives are the numbers of receive buffers to post again. They must be posted before Sends, because a
	// SEND may return the credits for them, after which the peer may use them (o2iblnd 9.4).
	Receives []int
	// Sends are chains of work requests; Writes and Pieces belong to them.
	Sends  []Send
	Writes []Write
	Pieces []Segment
	// Disconnect requests the end of the connection because of Failure. It is set at most once in a
	// connection's life.
	Disconnect bool
	Failure    *Failure
	// Arrivals are messages for LNet. The caller must answer each by Conn.Consumed, Sink, Reply or Refuse. If
	// LNet finds a protocol violation in it, the caller calls Conn.Close and still answers it.
	Arrivals []*Rx
	// Withdrawn are arrivals whose payload will not arrive, because the connection ends. The caller must answer
	// them nevertheless.
	Withdrawn []*Rx
	// Done are the results of messages that were sent or have failed. These messages belong to the caller
	// again.
	Done []Done
	// Placed are the results of arrivals that are complete. The caller returns the arrivals with Conn.Release.
	Placed []Placed

	heads []byte
}

// Send is a chain of work requests to post on the queue pair: unsignalled RDMA WRITEs, followed by a signalled
// SEND. If Part is set, the chain has no SEND, and its last WRITE is signalled instead.
type Send struct {
	// Slot is the number with which the caller reports the completion of the chain. Only one chain at a time
	// has a given number, from 0 to Conn.Slots()-1. So the caller can use one send buffer per number.
	Slot int
	Part bool
	// First is the index in Batch.Writes of the chain's first WRITE, and Writes the number of WRITEs.
	First, Writes int
	// Quiet is set if the completion of the chain finishes nothing that the upper layer waits for: the message is
	// an ACK, its answer is still to come, or it is a NOOP.
	Quiet bool
	// Payload is set for an IMMEDIATE with a payload, which the caller adds after the bytes of Head. If
	// checksums are sent, the caller then seals the whole message.
	Payload *Tx

	from, to int // part of Batch.heads that Head returns
}

// Done is the result of a message that the caller has given to the connection.
type Done struct {
	Tx *Tx
	// Failure is nil if the message succeeded.
	Failure *Failure
	// Recalled is set if the message was canceled by Recall. No byte of it was sent, and no side failed.
	Recalled bool
	// Replied is set if the answer to a GET is in its sink. The answer has Length bytes, but only the first
	// Sure bytes are certain to be there: a kernel may have left out the rest (o2iblnd 18, row 1).
	Replied      bool
	Length, Sure int
}

// Placed is the result of an arrival that the caller has answered.
type Placed struct {
	Rx *Rx
	// Failure is nil if the payload is in place or the answer has been written.
	Failure *Failure
}

// Head returns the message of a chain, without the payload of an IMMEDIATE. It is valid until Reset. A chain
// with Part set has no message.
func (b *Batch) Head(s *Send) []byte { return b.heads[s.from:s.to:s.to] }

// Empty reports whether the batch contains no actions.
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
