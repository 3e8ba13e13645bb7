package node

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// CaptureEvent says what has happened to a captured message.
type CaptureEvent uint8

const (
	// CaptureSent means that the message is passed to the driver. A message that is sent
	// again, perhaps on another path, is captured each time.
	CaptureSent CaptureEvent = iota
	// CaptureReceived means that all of the message has arrived.
	CaptureReceived
	// CaptureDropped means that the message is dropped for a DropReason.
	CaptureDropped
	// CaptureFailed means that a PUT or GET of this node cannot be sent. There is no further
	// attempt.
	CaptureFailed
)

// Captured is a message as a capture sees it.
type Captured struct {
	Event  CaptureEvent
	Header lnet.Header
	// NI is the NI through which the message leaves or has arrived. Neighbour is the next
	// hop, or the node from which the message has arrived directly. Each is zero if unknown.
	NI, Neighbour lnet.NID
	// Forwarded reports whether the message is from and for other nodes.
	Forwarded bool
	// Payload is what is in memory of the payload of a message that is sent or was received.
	// It is valid until the function has returned. It may be the memory of another process
	// (see memory.Guard).
	Payload memory.Vector
	// Reason is the reason why the message is dropped.
	Reason DropReason
	// Err is the error of a message that has failed.
	Err error
}

// captures holds the functions to which messages are passed.
type captures struct {
	// list is nil while there are none, so that a message costs one atomic load.
	list atomic.Pointer[[]*capture]
	mu   sync.Mutex // held while list is replaced
}

type capture struct{ see func(*Captured) }

// Capture passes each message that the node sends, receives or drops to the function see,
// in the goroutine that handles the message, until stop is called. The function must be
// fast, must not block, and must not call methods of the node. It may still be running
// when stop returns. Messages to 0@lo are captured when they are sent and when they are
// received. Capture returns ErrClosed if the node is closed.
func (a *Admin) Capture(see func(*Captured)) (stop func(), _ error) {
	n := a.n
	if err := n.checkOpen(); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	c := &capture{see}
	n.captures.replace(func(list []*capture) []*capture { return append(list, c) })
	return func() {
		n.captures.replace(func(list []*capture) []*capture {
			return slices.DeleteFunc(list, func(o *capture) bool { return o == c })
		})
	}, nil
}

func (c *captures) replace(change func(list []*capture) []*capture) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*capture
	if old := c.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if list = change(list); len(list) == 0 {
		c.list.Store(nil)
		return
	}
	c.list.Store(&list)
}

// active reports whether messages are captured.
func (c *captures) active() bool { return c.list.Load() != nil }

// pass passes a message to all functions.
func (c *captures) pass(m *Captured) {
	list := c.list.Load()
	if list == nil { // the last one has just stopped
		return
	}
	for _, one := range *list {
		one.see(m)
	}
}

// captureSend captures m, which is about to be passed to the driver.
func (m *message) captureSend() {
	m.node.captures.pass(&Captured{
		Event: CaptureSent, Header: m.tx.Header, NI: m.ni.NID, Neighbour: m.tx.To.NID, Forwarded: m.passage.forward, Payload: m.tx.Payload,
	})
}

// captureArrival captures m, which has arrived completely.
func (m *message) captureArrival(rx *lnd.Rx) {
	c := Captured{Event: CaptureReceived, Header: rx.Header, NI: m.ni.NID, Neighbour: rx.From.NID, Forwarded: m.passage.forward}
	switch {
	case m.passage.forward:
		c.Payload = m.tx.Payload
	case rx.Header.Type == lnet.MsgPut || rx.Header.Type == lnet.MsgReply:
		c.Payload = m.op.Memory()
	}
	m.node.captures.pass(&c)
}

// captureDrop captures a message that is dropped. i and p may be nil.
func (n *Node) captureDrop(r DropReason, i *ni, p *peerNI, h *lnet.Header) {
	c := Captured{Event: CaptureDropped, Header: *h, Reason: r}
	if i != nil {
		c.NI = i.NID
	}
	if p != nil {
		c.Neighbour = p.NID
	}
	n.captures.pass(&c)
}

// captureFailure captures m, whose sending has failed, if countDropped has not captured
// it.
func (m *message) captureFailure(err error) {
	if m.passage.forward || m.isAnswer() || m.node.reasonFor(err) == DropOverdue {
		return
	}
	c := Captured{Event: CaptureFailed, Header: m.tx.Header, Neighbour: m.tx.To.NID, Err: err}
	if m.ni != nil {
		c.NI = m.ni.NID
	} else {
		c.Neighbour = lnet.NID{} // no path was chosen
	}
	m.node.captures.pass(&c)
}
