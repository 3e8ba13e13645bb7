package protocol

// Batch is what a connection wants done. Calls of the connection append to it; the
// caller carries it out in this order, and then calls Reset: post Receives, post
// Sends in order, Disconnect, and tell the upper side of the rest. Nothing is
// allocated once its slices have grown.
//
// It belongs to one connection between two calls of Reset.
type Batch struct {
	// Receives are receive buffers, by their numbers, to post again. They come
	// before Sends, which may carry the credits for them (o2iblnd 9.4).
	Receives []int
	// Sends are chains of work requests; Writes and Pieces belong to them.
	Sends  []Send
	Writes []Write
	Pieces []Segment
	// Disconnect: the connection is to be taken down, for Failure. It is set once.
	Disconnect bool
	Failure    *Failure
	// Arrivals are messages for LNet: each is answered by Consumed, Sink,
	// Reply or Refuse of the connection. If LNet finds that one breaks the protocol,
	// Close is called too.
	Arrivals []*Rx
	// Withdrawn are arrivals whose payload will not come. They are to be answered
	// all the same.
	Withdrawn []*Rx
	// Done are messages that were sent, or have failed: they are the caller's again.
	Done []Done
	// Placed are arrivals that are through. The caller gives them back by Release.
	Placed []Placed

	heads []byte
}

// Send is a chain to post on the queue pair: RDMA WRITEs, unsignalled, and behind
// them, signalled, a SEND. A Part has no SEND: its last WRITE is signalled.
type Send struct {
	// Slot names the chain: its completion is told by it. Each number from 0 to
	// Slots()-1 is in use once at a time, and so can have a message buffer.
	Slot int
	Part bool
	// First and Writes say which of Batch.Writes come first.
	First, Writes int
	// Payload, if it is not nil, is an IMMEDIATE whose payload follows Head. Where
	// checksums are sent, the caller seals the two.
	Payload *Tx

	from, to int // in heads
}

// Done is the end of a message that was sent.
type Done struct {
	Tx *Tx
	// Failure is nil if all is well.
	Failure *Failure
	// Recalled: no byte of it was written, and it is nobody's fault.
	Recalled bool
	// Replied: the answer to a GET stands in its sink: Length bytes, of which the
	// first Sure are there in any case. If Sure is less, a kernel may have left the
	// others out (o2iblnd 18, row 1).
	Replied      bool
	Length, Sure int
}

// Placed is the end of an arrival.
type Placed struct {
	Rx *Rx
	// Failure is nil if the payload is in place, or the answer has been written.
	Failure *Failure
}

// Head is the beginning of a chain's message, or all of it; valid until Reset. A Part
// has none.
func (b *Batch) Head(s *Send) []byte { return b.heads[s.from:s.to:s.to] }

// Empty tells whether there is nothing to do.
func (b *Batch) Empty() bool {
	return len(b.Receives)+len(b.Sends)+len(b.Arrivals)+len(b.Withdrawn)+len(b.Done)+len(b.Placed) == 0 && !b.Disconnect
}

// Reset empties the batch and keeps its memory.
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
