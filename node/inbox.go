package node

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// InboxConfig says what an inbox is like.
type InboxConfig struct {
	// Portal is the inbox's alone while it is open, 1 to 63.
	Portal uint32
	// Size is how many bytes a message may have, at most lnet.MTU; 0: lnet.MTU. A
	// longer one is dropped, and counts under DropTooLong.
	Size int
	// Buffers is how many messages there is room for, lent ones included; 0:
	// InboxBuffers. The inbox holds Size bytes for each.
	Buffers int
	// DropWhenFull drops messages that find no buffer, and counts them under
	// DropNoMatch. Else they wait at their senders; see Inbox.
	DropWhenFull bool
}

// InboxBuffers is the default of InboxConfig.Buffers.
const InboxBuffers = 16

// Inbox hands a program the PUTs that come to a portal, from whomever and with any
// match bits, each once, those of one connection in the order in which they came.
// OpenInbox makes it. All methods are safe for concurrent use.
//
// A message goes from the driver into a buffer of the inbox, which its sender's ACK
// tells of, and is lent from there: nothing is copied, or allocated. When it is
// released the buffer takes another one.
//
// While all buffers are taken the portal is lazy (lnet-core 4.6): a PUT waits, and
// with it the connection that it came by, with all that is behind it. So a slow reader
// loses nothing, but for what is beyond 16384 PUTs. A sender that waits for an ACK may
// give up, with ErrTimedOut, and be read later all the same; one that cannot write for
// longer than its LND timeout, 50 s, takes the connection for dead. What a reader waits
// for may be behind such a PUT, too: an ACK or a REPLY from the sender of a message
// that he keeps. Who asks senders back while he keeps messages has buffers for all that
// may come meanwhile, or DropWhenFull.
type Inbox struct {
	node *Node
	// c has its defaults.
	c    InboxConfig
	wake chan struct{} // one token while the queue is not empty
	done chan struct{} // closed when no message will come any more

	mu          sync.Mutex // guards the rest, and of each buffer what says so
	buffers     []*inboxBuffer
	first, last *inboxBuffer // the queue of those that were not read yet
	posted      int          // buffers that may take a message
	busy        int          // calls that attach or unlink buffers
	closed      bool
}

// inboxBuffer is posted until a message comes, is in the queue until that is read,
// and lent until it is released; then it is posted again.
type inboxBuffer struct {
	inbox  *Inbox
	memory []byte

	// Guarded by inbox.mu.
	turn    uint64      // grows with each change of state
	handle  lnet.Handle // while it is posted, as soon as it is known; else NoHandle
	message Message
	next    *inboxBuffer
}

// Message is a PUT that has come to an inbox.
type Message struct {
	// Data is what was sent. It is lent until Release, and may be changed until then.
	Data []byte
	// MatchBits and HdrData are those that the sender gave.
	MatchBits, HdrData uint64
	// Initiator is who sent it, by primary NID: where an answer goes to. Source is
	// the same by the NID that it was sent from.
	Initiator, Source lnet.ProcessID

	buffer *inboxBuffer
	turn   uint64
}

// OpenInbox makes an inbox, and has it take messages. Close ends it, or the end of
// the node. It does not block. ErrInvalid; ErrExists: the portal has an inbox, or part
// of it is claimed; ErrPortalClass; ErrClosed.
func (n *Node) OpenInbox(c InboxConfig) (*Inbox, error) {
	if err := n.takes(); err != nil {
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
		return nil, bad("it is LNet's own: %w", ErrInvalid)
	case c.Portal >= lnet.Portals:
		return nil, bad("not below %d: %w", lnet.Portals, ErrInvalid)
	case c.Size < 0 || c.Size > lnet.MTU:
		return nil, bad("size %d: not within 1 to %d: %w", c.Size, lnet.MTU, ErrInvalid)
	case c.Buffers < 0:
		return nil, bad("%d buffers: %w", c.Buffers, ErrInvalid)
	case !n.uses[c.Portal].open():
		return nil, bad("it has one, or is claimed: %w", ErrExists)
	}
	b := &Inbox{node: n, c: c, wake: make(chan struct{}, 1), done: make(chan struct{})}
	for range c.Buffers {
		b.buffers = append(b.buffers, &inboxBuffer{inbox: b, memory: make([]byte, c.Size), handle: lnet.NoHandle})
	}
	if !c.DropWhenFull {
		_ = n.table.SetLazy(c.Portal) // there is such a portal
	}
	for _, x := range b.buffers {
		if err := x.post(); err != nil {
			b.Close()
			return nil, bad("%w", err)
		}
	}
	return b, nil
}

// Next waits for a message. It is the caller's until Release. Errors are ctx's, or
// ErrClosed when the inbox or the node is closed and what it had taken before was
// read; ErrInHandler, if it would have to wait, in a handler.
func (b *Inbox) Next(ctx context.Context) (Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Message{}, err
		}
		if m, ok := b.take(); ok {
			return m, nil
		}
		if err := b.node.mayWait(); err != nil {
			return Message{}, err
		}
		select {
		case <-b.wake: // which is for a message, whatever has become of ctx
			if m, ok := b.take(); ok {
				return m, nil
			}
			continue // another reader has it
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

// Messages yields messages as Next returns them, and releases each when the loop is
// through with it. An error is the last thing that comes.
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

// Release gives the message's buffer back, which takes another one; handlers may run
// meanwhile. Data must not be used any more. A second Release does nothing.
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
		_ = x.post() // an error is the node's end
	}
}

// Close ends the inbox, and does not wait. No message is taken any more; those that
// wait at their senders for a buffer are dropped, which the senders of those with an
// ACK find out in time. What was taken before can still be read. The portal may have
// another inbox then, at once unless a Release is under way. Close may be called again.
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
		_ = b.node.Unlink(h) // not found: a message has come
	}
	b.endBusy()
}

// endBusy ends what has made the inbox busy. The last to do so, when it is closed,
// gives the portal back: nothing of the inbox is attached to it any more.
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
		_ = b.node.clearLazy(b.c.Portal) // there is such a portal
	}
	b.node.uses[b.c.Portal].close()
}

// announceEnd tells readers when no message will come any more. b.mu is held.
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

// post has x wait for a message, unless the inbox is closed.
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
	case x.turn == turn: // no message has come meanwhile
		x.handle = h
		late = b.closed // Close did not know the handle
	}
	b.mu.Unlock()
	if late {
		_ = b.node.Unlink(h) // not found: a message has come
	}
	b.endBusy()
	return err
}

// HandleEvent implements portals.Handler.
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
	case e.Type == portals.EventPut: // its connection ended before all of it was there
		_ = x.post() // an error is the node's end
	}
}

// push puts x behind the queue. b.mu is held.
func (b *Inbox) push(x *inboxBuffer) {
	if b.last == nil {
		b.first = x
	} else {
		b.last.next = x
	}
	b.last = x
}

// take takes the oldest message out of the queue.
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
		b.signal() // several may wait
	}
	return m, true
}

// signal leaves a token for a reader, if there is none yet.
func (b *Inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
