package node

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// InboxConfig configures an Inbox.
type InboxConfig struct {
	// Portal is the number of the portal, 1 to 63. The inbox uses it exclusively until it is
	// closed.
	Portal uint32
	// Size is the largest accepted message in bytes, at most lnet.MTU. Zero means lnet.MTU.
	// Longer messages are dropped and counted under DropTooLong.
	Size int
	// Buffers is the number of messages that the inbox can hold, including those lent to the
	// program. Zero means InboxBuffers. The inbox allocates Size bytes for each.
	Buffers int
	// DropWhenFull drops messages while no buffer is free, and counts them under DropNoMatch.
	// If it is false, such messages wait at their senders; see Inbox.
	DropWhenFull bool
}

// InboxBuffers is the default of InboxConfig.Buffers.
const InboxBuffers = 16

// Inbox receives the PUTs that arrive on a portal, from any sender and with any match
// bits. Each message is returned once. Messages of one connection are returned in the
// order in which they arrived. OpenInbox creates an Inbox. All methods are safe for
// concurrent use.
//
// The driver writes each message directly into a buffer of the inbox, and an ACK, if the
// sender requested one, confirms that. The program borrows the buffer. Nothing is copied
// or allocated. Release makes the buffer available for another message.
//
// While no buffer is free, the portal is lazy (lnet-core 4.6): a PUT waits and blocks the
// connection on which it arrived. So a slow reader loses no messages unless more than
// 16384 PUTs wait. A sender that waits for an ACK may fail with ErrTimedOut although its
// message is read later. A sender that cannot write for longer than its LND timeout, 50 s,
// closes the connection.
//
// An ACK or a REPLY that a reader waits for may be blocked behind such a PUT. A program
// that sends requests to the senders of messages before it releases these messages
// therefore needs enough buffers for everything that may arrive meanwhile, or
// DropWhenFull.
type Inbox struct {
	node *Node
	// the configuration, with defaults in place of zeros
	c    InboxConfig
	wake chan struct{} // has one token while the queue is not empty
	done chan struct{} // closed when no more messages will arrive

	mu          sync.Mutex // guards the fields below, and the fields of each buffer that are marked as guarded
	buffers     []*inboxBuffer
	first, last *inboxBuffer // queue of messages that were not read yet
	posted      int          // buffers that may receive a message
	busy        int          // calls that are attaching or unlinking buffers
	closed      bool
}

// inboxBuffer is one buffer of an inbox. It is posted (attached to the portal) until a
// message arrives, then queued until the program reads the message, then lent to the
// program until the program releases it. Then it is posted again.
type inboxBuffer struct {
	inbox  *Inbox
	memory []byte

	// Guarded by inbox.mu.
	turn    uint64      // number of changes of state; distinguishes the uses of the buffer
	handle  lnet.Handle // handle of the MD while the buffer is posted, once Attach has returned it; otherwise NoHandle
	message Message
	next    *inboxBuffer
}

// Message is a PUT that has arrived in an inbox.
type Message struct {
	// Data is the payload. The program may read and modify it until Release.
	Data []byte
	// MatchBits and HdrData were set by the sender.
	MatchBits, HdrData uint64
	// Initiator and Source identify the sender. Initiator has its primary NID, to which
	// answers are sent. Source has the NID from which it sent the message.
	Initiator, Source lnet.ProcessID

	buffer *inboxBuffer
	turn   uint64
}

// OpenInbox opens an inbox, which receives messages immediately, even before OpenInbox
// returns. The inbox is closed by Inbox.Close or when the node closes. OpenInbox does not
// block. It returns ErrInvalid if c is invalid, ErrExists if the portal has an inbox or
// part of it is claimed, ErrPortalClass if unique entries were attached to the portal, or
// ErrClosed.
func (n *Node) OpenInbox(c InboxConfig) (*Inbox, error) {
	if err := n.checkOpen(); err != nil {
		return nil, err
	}
	if c.Size == 0 {
		c.Size = lnet.MTU
	}
	if c.Buffers == 0 {
		c.Buffers = InboxBuffers
	}
	bad := func(format string, v ...any) error {
		return fmt.Errorf("inbox on portal %d: "+format, append([]any{c.Portal}, v...)...)
	}
	switch {
	case c.Portal == lnet.ReservedPortal:
		return nil, bad("it is reserved for LNet: %w", ErrInvalid)
	case c.Portal >= lnet.Portals:
		return nil, bad("the number must be below %d: %w", lnet.Portals, ErrInvalid)
	case c.Size < 0 || c.Size > lnet.MTU:
		return nil, bad("size %d: not within 1 to %d: %w", c.Size, lnet.MTU, ErrInvalid)
	case c.Buffers < 0:
		return nil, bad("%d buffers: negative: %w", c.Buffers, ErrInvalid)
	case !n.uses[c.Portal].open():
		return nil, bad("the portal already has an inbox or is claimed: %w", ErrExists)
	}
	b := &Inbox{node: n, c: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
	for range c.Buffers {
		b.buffers = append(b.buffers, &inboxBuffer{inbox: b, memory: make([]byte, c.Size), handle: lnet.NoHandle})
	}
	if !c.DropWhenFull {
		_ = n.table.SetLazy(c.Portal) // the portal is valid
	}
	for _, x := range b.buffers {
		if err := x.post(); err != nil {
			b.Close()
			return nil, bad("%w", err)
		}
	}
	return b, nil
}

// Next waits for a message and returns it. The message's buffer belongs to the caller
// until Message.Release. Next returns ctx's error; ErrClosed if the inbox or the node is
// closed and all messages that arrived before were read; or ErrInHandler if no message is
// queued and a handler calls it.
func (b *Inbox) Next(ctx context.Context) (Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Message{}, err
		}
		if m, ok := b.take(); ok {
			return m, nil
		}
		if err := b.node.checkMayBlock(); err != nil {
			return Message{}, err
		}
		select {
		case <-b.wake: // a token stands for a message, which is returned even if ctx has ended
			if m, ok := b.take(); ok {
				return m, nil
			}
			continue // another reader took the message
		case <-ctx.Done():
			continue
		case <-b.done:
		case <-b.node.ctx.Done():
		}
		if m, ok := b.take(); ok {
			return m, nil
		}
		return Message{}, fmt.Errorf("inbox on portal %d: %w", b.c.Portal, ErrClosed)
	}
}

// Messages returns an iterator over the messages that Next returns. It releases each
// message when the loop body ends. If Next returns an error, that is the last element.
func (b *Inbox) Messages(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		each := func() (more bool) {
			m, err := b.Next(ctx)
			defer m.Release() // even if the loop panics
			return yield(m, err) && err == nil
		}
		for each() {
		}
	}
}

// Release returns the message's buffer to the inbox, so that it can receive another
// message. Data must not be used afterwards. Further calls do nothing. Release may run
// handlers, because it attaches the buffer to the portal.
func (m *Message) Release() {
	x := m.buffer
	if x == nil {
		return
	}
	b := x.inbox
	b.mu.Lock()
	lent := x.turn == m.turn
	if lent {
		x.turn++
	}
	b.mu.Unlock()
	if lent {
		_ = x.post() // fails only if the node is closed
	}
}

// Close closes the inbox without waiting. The inbox accepts no more messages, but messages
// that arrived before can still be read. Messages that wait at their senders for a buffer
// are dropped, so that senders waiting for an ACK time out. The portal can be used for
// another inbox as soon as no Release is running. Close may be called more than once.
func (b *Inbox) Close() {
	var handles []lnet.Handle
	b.mu.Lock()
	again := b.closed
	if !again {
		b.closed = true
		b.busy++
		for _, x := range b.buffers {
			if x.handle != lnet.NoHandle {
				handles = append(handles, x.handle)
			}
		}
	}
	b.mu.Unlock()
	if again {
		return
	}
	for _, h := range handles {
		_ = b.node.Unlink(h) // not found: a message has arrived
	}
	b.endBusy()
}

// endBusy ends a call that was counted in busy. When the last such call ends after Close,
// no buffer is attached any more, and endBusy makes the portal available for other uses.
func (b *Inbox) endBusy() {
	b.mu.Lock()
	b.busy--
	last := b.closed && b.busy == 0
	b.announceEnd()
	b.mu.Unlock()
	if !last {
		return
	}
	if !b.c.DropWhenFull {
		_ = b.node.clearLazy(b.c.Portal) // the portal is valid
	}
	b.node.uses[b.c.Portal].close()
}

// announceEnd closes b.done if the inbox is closed and no posted buffer is left, so that
// no message can arrive any more. b.mu must be held.
func (b *Inbox) announceEnd() {
	if !b.closed || b.posted > 0 {
		return
	}
	select {
	case <-b.done:
	default:
		close(b.done)
	}
}

// post attaches x to the portal, so that it can receive a message. It does nothing if the
// inbox is closed.
func (x *inboxBuffer) post() error {
	b := x.inbox
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	turn := x.turn
	b.posted++
	b.busy++
	b.mu.Unlock()

	h, err := b.node.Attach(
		portals.Entry{Portal: b.c.Portal, IgnoreBits: ^uint64(0)},
		portals.MD{Bytes: x.memory, Options: portals.OpPut, Threshold: 1, Unlink: true, Handler: x})

	late := false
	b.mu.Lock()
	switch {
	case err != nil:
		b.posted--
	case x.turn == turn: // no message has arrived meanwhile
		x.handle = h
		late = b.closed // Close did not have the handle
	}
	b.mu.Unlock()
	if late {
		_ = b.node.Unlink(h) // not found: a message has arrived
	}
	b.endBusy()
	return err
}

// HandleEvent implements portals.Handler. The first event of a posted buffer is also the
// last one of its MD.
func (x *inboxBuffer) HandleEvent(e *portals.Event) {
	b := x.inbox
	b.mu.Lock()
	x.turn++
	x.handle = lnet.NoHandle
	b.posted--
	came := e.Type == portals.EventPut && e.Err == nil
	if came {
		data := e.Data()
		x.message = Message{
			Data: data[:len(data):len(data)], MatchBits: e.MatchBits, HdrData: e.HdrData,
			Initiator: e.Initiator, Source: e.Source, buffer: x, turn: x.turn,
		}
		b.push(x)
	}
	b.announceEnd()
	b.mu.Unlock()
	switch {
	case came:
		b.signal()
	case e.Type == portals.EventPut: // the connection ended before the whole message had arrived
		_ = x.post() // fails only if the node is closed
	}
}

// push appends x to the queue. b.mu must be held.
func (b *Inbox) push(x *inboxBuffer) {
	if b.last == nil {
		b.first = x
	} else {
		b.last.next = x
	}
	b.last = x
}

// take removes and returns the oldest message of the queue.
func (b *Inbox) take() (m Message, ok bool) {
	b.mu.Lock()
	x := b.first
	if x == nil {
		b.mu.Unlock()
		return m, false
	}
	if b.first, x.next = x.next, nil; b.first == nil {
		b.last = nil
	}
	more := b.first != nil
	m, x.message = x.message, Message{}
	b.mu.Unlock()
	if more {
		b.signal() // several readers may be waiting
	}
	return m, true
}

// signal wakes a reader that waits in Next. If the channel has a token already, signal
// does nothing.
func (b *Inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
