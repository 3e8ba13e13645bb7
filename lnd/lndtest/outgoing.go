package lndtest

import (
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// outgoing is an outgoing message with the record of its completion. It also receives the completion of the
// message.
type outgoing struct {
	lnd.Tx
	n *node

	sink        *guarded // destination of the answer, for a GET
	completions int      // calls of Sent
	err         error    // error of the last call
}

var _ lnd.Sender = (*outgoing)(nil)

// id returns the number that identifies the message on both sides. It is in the header's handle, which all
// message types have.
func (o *outgoing) id() uint64 { return o.Header.Handle.Object }

// message creates a message to a peer, with a payload of the given size in the given number of pieces.
func (n *node) message(t lnet.MsgType, to *node, size, pieces int) *outgoing {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.s.lastID++
	o := &outgoing{n: n}
	o.Header = lnet.Header{
		Dest: to.id.NID, Src: n.id.NID,
		DestPID: to.id.PID, SrcPID: n.id.PID,
		Type:          t,
		PayloadLength: uint32(size),
		Handle:        lnet.Handle{Interface: uint64(n.k), Object: n.s.lastID},
	}
	o.To = to.id
	o.Done = o
	if size > 0 {
		g := newGuarded(size, pieces)
		g.fill(o.id())
		o.Payload = g.memory()
	}
	return o
}

// send passes o to the driver and returns it.
func (n *node) send(o *outgoing) *outgoing {
	n.s.mu.Lock()
	n.sent = append(n.sent, o)
	i := n.i
	n.s.mu.Unlock()
	i.Send(&o.Tx)
	return o
}

// put sends a PUT of the given size.
func (n *node) put(to *node, size int) *outgoing {
	return n.send(n.message(lnet.MsgPut, to, size, 1))
}

// puts sends count PUTs of the given size.
func (n *node) puts(to *node, count, size int) []*outgoing {
	out := make([]*outgoing, count)
	for k := range out {
		out[k] = n.put(to, size)
	}
	return out
}

// Sent implements lnd.Sender.
func (o *outgoing) Sent(m *lnd.Tx, err error) {
	s := o.n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	o.n.alive("Sent")
	if m != &o.Tx {
		s.fault("Sent with another Tx than the one that was sent")
	}
	o.completions++
	o.err = err
	s.changed.Broadcast()
}

// check checks that the message has completed exactly once, with a proper error if it failed.
func (o *outgoing) check() {
	t := o.n.s.t
	t.Helper()
	what := fmt.Sprintf("node %d: message %d, %s of %d bytes", o.n.k, o.id(), o.Header.Type, o.Payload.Length)
	if o.completions != 1 {
		t.Errorf("%s: completed %d times", what, o.completions)
	}
	checkError(t, what, o.err)
	if o.sink != nil {
		if err := o.sink.checkGuards(); err != nil {
			t.Errorf("%s: sink: %v", what, err)
		}
	}
}

// awaitComplete waits until all messages are complete.
func (s *stage) awaitComplete(out []*outgoing) {
	s.t.Helper()
	s.await("completions", func() bool { return complete(out) })
}

// complete reports whether all messages are complete.
func complete(out []*outgoing) bool {
	return !slices.ContainsFunc(out, func(o *outgoing) bool { return o.completions == 0 })
}

// awaitDelivered waits until all messages have completed without an error and have arrived at the node to. It
// checks that each has arrived exactly once, with the header and the payload that were sent.
func (s *stage) awaitDelivered(to *node, out ...*outgoing) {
	s.t.Helper()
	s.awaitComplete(out)
	s.await("arrivals", func() bool {
		if failures(out) > 0 {
			return true // reported below
		}
		for _, o := range out {
			list := to.arrivals[o.id()]
			if len(list) == 0 || list[0].wanted && list[0].completions == 0 || !list[0].placed && !list[0].refused {
				return false
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := failures(out); n > 0 {
		s.t.Errorf("%d of %d messages failed", n, len(out))
	}
	for _, o := range out {
		list := to.arrivals[o.id()]
		switch {
		case o.err != nil:
			s.t.Fatalf("message %d: %v", o.id(), o.err)
		case len(list) != 1:
			s.t.Errorf("message %d arrived %d times", o.id(), len(list))
		case list[0].err != nil:
			s.t.Errorf("arrival of message %d: %v", o.id(), list[0].err)
		case list[0].from != o.n.id:
			s.t.Errorf("message %d came from %s, want %s", o.id(), list[0].from, o.n.id)
		default:
			if diff := list[0].sameHeader(o); diff != "" {
				s.t.Errorf("header of message %d (-sent +arrived):\n%s", o.id(), diff)
			}
		}
	}
}

// attempts is how often a message is sent again that may be lost with a connection.
const attempts = 200

// awaitWorking sends messages until one arrives. The first messages after a fault may fail.
func (s *stage) awaitWorking(from, to *node) {
	s.t.Helper()
	for range attempts {
		o := from.put(to, 10)
		s.awaitComplete([]*outgoing{o})
		if o.err == nil {
			if s.within(s.h.Patience/attempts, func() bool { return len(to.arrivals[o.id()]) > 0 }) {
				s.awaitDelivered(to, o)
				return
			}
			continue // the message was lost with a connection that was closing
		}
		s.pause(s.h.Patience / attempts)
	}
	s.t.Fatalf("no message gets from node %d to node %d\n%s", from.k, to.k, s.describe())
}

// failures returns how many messages failed. The records are locked.
func failures(out []*outgoing) int {
	count := 0
	for _, o := range out {
		if o.err != nil {
			count++
		}
	}
	return count
}
