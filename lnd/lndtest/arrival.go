package lndtest

import (
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// arrival is the record of an incoming message. It also receives the completion of the message.
type arrival struct {
	n       *node
	m       *lnd.Rx
	i       lnd.Interface
	header  lnet.Header
	from    lnet.ProcessID
	rdma    bool
	refused bool // the node has treated the message as a protocol error

	memory      *guarded // destination of the payload; nil if the message is dropped
	placed      bool     // the node has given the placement
	prompt      bool     // the placement was given within the upcall Arrived
	withdrawn   bool     // the upcall Withdrawn was made
	withdrawing bool     // the upcall Withdrawn is running
	wanted      bool     // the placement asks for a completion
	posthumous  bool     // the placement was given after Close
	completions int      // calls of Received
	err         error    // error of the last call
}

var _ lnd.Receiver = (*arrival)(nil)

func (a *arrival) id() uint64   { return a.header.Handle.Object }
func (a *arrival) payload() int { return int(a.header.PayloadLength) }

// keep returns a placement of the first length bytes in new memory.
func (a *arrival) keep(length int) lnd.Placement {
	return a.keepIn(newGuarded(length, 1))
}

// keepIn returns a placement in g.
func (a *arrival) keepIn(g *guarded) lnd.Placement {
	a.memory = g
	return lnd.Placement{Memory: g.memory(), Done: a}
}

// give records that the node gives the placement p. The records are locked.
func (a *arrival) give(p lnd.Placement) {
	a.placed, a.wanted, a.posthumous = true, p.Done != nil, a.n.closed
}

// Received implements lnd.Receiver.
func (a *arrival) Received(m *lnd.Rx, err error) {
	s := a.n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.posthumous {
		a.n.alive("Received")
	}
	if m != a.m {
		s.fault("Received with another Rx than the one that arrived")
	}
	if a.withdrawing {
		s.fault(fmt.Sprintf("node %d: Received while Withdrawn runs", a.n.k))
	}
	a.completions++
	a.err = err
	s.changed.Broadcast()
}

// done reports whether the arrival has completed without an error. The records are locked.
func (a *arrival) done() bool { return a.completions > 0 && a.err == nil }

// check checks that the arrival has completed as often as it must, and that the payload is right.
func (a *arrival) check() {
	t := a.n.s.t
	t.Helper()
	what := fmt.Sprintf("node %d: arrival of message %d, %s of %d bytes", a.n.k, a.id(), a.header.Type, a.payload())
	want := 0
	if a.wanted {
		want = 1
	}
	if a.completions != want {
		t.Errorf("%s: completed %d times, want %d", what, a.completions, want)
	}
	checkError(t, what, a.err)
	if a.memory == nil {
		return
	}
	if a.done() {
		if err := a.memory.checkPattern(a.id()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := a.memory.checkGuards(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// sameHeader compares the header that arrived with the header of o, which was sent. It returns the difference,
// or "" if they are equal.
func (a *arrival) sameHeader(o *outgoing) string {
	if o.Header == a.header {
		return ""
	}
	return cmp.Diff(o.Header, a.header, cmp.Comparer(func(x, y lnet.NID) bool { return x == y }))
}
