package mpilnd

import (
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/protocol"
)

// wires is what all processes of a job send through, so that a test can hold messages between two of them, and end
// links.
type wires struct {
	mu    sync.Mutex // guards the fields below
	ranks []*wire
	held  map[pair]bool             // messages wait
	last  map[pair]protocol.Message // the last short message
	cut   map[pair]int              // bytes until the link is ended
}

// pair is a process that sends, and one that receives.
type pair struct{ from, to int }

func newWires(n int) *wires {
	return &wires{
		ranks: make([]*wire, n), held: make(map[pair]bool), last: make(map[pair]protocol.Message), cut: make(map[pair]int),
	}
}

// wire is the access of one process to MPI.
type wire struct {
	boundary.MPI
	w    *wires
	rank int
	comm boundary.Comm // of the library

	// wires.mu guards the fields below.
	waiting []sending
	forged  []sending
	own     uint64 // number of messages that the wire has sent itself
}

type sending struct {
	to, tag int
	b       []byte
	id      uint64
}

// ownID is set in the IDs of requests of the wire itself.
const ownID = 1 << 63

func (w *wires) wrap(rank int, m boundary.MPI) *wire {
	w.ranks[rank] = &wire{MPI: m, w: w, rank: rank}
	return w.ranks[rank]
}

// Poll sends what may be sent, and does not report the completion of the wire's own messages.
func (m *wire) Poll(done []boundary.Done, wait time.Duration) (int, error) {
	if err := m.forward(); err != nil {
		return 0, err
	}
	n, err := m.MPI.Poll(done, wait)
	return len(slices.DeleteFunc(done[:n], func(d boundary.Done) bool { return d.ID&ownID != 0 })), err
}

func (m *wire) forward() error {
	m.w.mu.Lock()
	var ready []sending
	m.waiting = slices.DeleteFunc(m.waiting, func(s sending) bool {
		if m.w.held[pair{m.rank, s.to}] {
			return false
		}
		ready = append(ready, s)
		return true
	})
	ready = append(ready, m.forged...)
	m.forged = nil
	m.w.mu.Unlock()
	for _, s := range ready {
		if err := m.comm.Send(s.to, s.tag, s.b, s.id); err != nil {
			return err
		}
	}
	return nil
}

// wired is the communicator of a wire. It has no collective calls.
type wired struct {
	boundary.Comm
	m *wire
}

func (c wired) Send(to, tag int, b []byte, id uint64) error {
	w, way := c.m.w, pair{c.m.rank, to}
	w.mu.Lock()
	if tag == protocol.ShortTag {
		var m protocol.Message
		if m.Decode(b) == nil && m.Sequence != protocol.Unordered {
			w.last[way] = m
		}
	}
	if left, ok := w.cut[way]; ok {
		if w.cut[way] = left - len(b); left < len(b) {
			delete(w.cut, way)
			w.endLink(way)
		}
	}
	held := w.held[way] || slices.ContainsFunc(c.m.waiting, func(s sending) bool { return s.to == to })
	if held {
		c.m.waiting = append(c.m.waiting, sending{to, tag, b, id})
	}
	w.mu.Unlock()
	if held {
		return nil
	}
	return c.Comm.Send(to, tag, b, id)
}

func (c wired) Barrier() error              { panic("a collective call") }
func (c wired) Broadcast([]byte, int) error { panic("a collective call") }
func (c wired) Gather(_, _ []byte, _ int) error {
	panic("a collective call")
}

// kill makes both processes believe that the other one has ended their link.
func (w *wires) kill(a, b int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLink(pair{a, b})
	w.ranks[a].MPI.Wake()
	w.ranks[b].MPI.Wake()
}

// endLink sends a BYE in both directions. The lock is held.
func (w *wires) endLink(way pair) {
	for _, way := range []pair{way, {way.to, way.from}} {
		here, there := w.last[way], w.last[pair{way.to, way.from}]
		bye := protocol.Message{
			Type: protocol.Bye, From: here.From, To: there.From, Sequence: protocol.Unordered, Reason: protocol.Disconnected,
			Block: protocol.Block{Credits: 1},
		}
		m := w.ranks[way.from]
		m.own++
		m.forged = append(m.forged, sending{way.to, protocol.ShortTag, bye.Append(nil), ownID | m.own})
	}
}

// hold holds the messages between two processes until release is called.
func (w *wires) hold(a, b int) (release func()) {
	set := func(held bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held[pair{a, b}], w.held[pair{b, a}] = held, held
		w.ranks[a].MPI.Wake()
		w.ranks[b].MPI.Wake()
	}
	set(true)
	return func() { set(false) }
}

// drop loses the short messages from a process that are held, as if it had been killed and started again. Its sends
// complete.
func (w *wires) drop(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nothing := protocol.Message{Type: protocol.Bye, Sequence: protocol.Unordered, Reason: protocol.Stale, Block: protocol.Block{Credits: 1}}
	for k, s := range w.ranks[rank].waiting {
		if s.tag == protocol.ShortTag {
			w.ranks[rank].waiting[k].b = nothing.Append(nil)
		}
	}
}

func (w *wires) cutAfter(way pair, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[way] = n
}
