package lndtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// node is one node of a case: it records the upcalls of its interface, and sends messages. stage.mu guards the
// records.
type node struct {
	s  *stage
	k  int
	id lnet.ProcessID

	i      lnd.Interface           // the interface that was opened last; nil before the first
	ready  bool                    // Open has returned, Close has not
	closed bool                    // Close has returned and the node was not opened again
	births []uint64                // for each time that the node was opened, the number of messages created before
	met    map[*node]*acquaintance // what the node has received from each peer since it was opened

	policy   policy
	hook     func(a *arrival)      // called in Arrived before the policy, without the lock
	gone     func(a *arrival)      // called in Withdrawn, without the lock
	reborn   func(peer *node)      // called in PeerRestarted, without the lock
	held     []*arrival            // arrivals that are not placed yet
	current  map[*lnd.Rx]*arrival  // the latest arrival that uses each Rx
	arrivals map[uint64][]*arrival // arrivals by message
	order    []*arrival            // all arrivals in order
	sent     []*outgoing
	downs    []lnd.PeerDown
	stalls   map[lnet.NID]time.Time // stalled peers, and since when
	losses   []lnet.NID             // calls of ConnectionsLost
	links    []lnd.LinkState
}

var _ lnd.Upper = (*node)(nil)

// policy decides on an arrival. It returns the placement p. If later is set, the arrival is held without a
// placement. If err is not nil, the node reports a protocol error. It is called with the records locked. A nil
// policy keeps all payloads immediately.
type policy func(a *arrival) (p lnd.Placement, later bool, err error)

// keepAll is a policy that keeps the whole payload.
func keepAll(a *arrival) (lnd.Placement, bool, error) { return a.keep(a.payload()), false, nil }

// holdAll is a policy that gives no placement yet.
func holdAll(*arrival) (lnd.Placement, bool, error) { return lnd.Placement{}, true, nil }

// open opens the node's interface.
func (n *node) open() {
	n.s.t.Helper()
	n.s.note(func() {
		n.closed = false
		n.births = append(n.births, n.s.lastID)
		n.met = make(map[*node]*acquaintance)
		n.stalls = make(map[lnet.NID]time.Time)
	})
	ctx, cancel := n.s.closeContext()
	defer cancel()
	i, err := n.s.w.Open(ctx, n.k, n)
	if err != nil {
		n.s.t.Fatalf("node %d: open: %v", n.k, err)
	}
	n.s.note(func() { n.i, n.ready = i, true })
	n.place() // places messages that arrived before Open returned
	if got := i.NID(); got != n.id.NID {
		n.s.t.Fatalf("node %d: NID %s, want %s", n.k, got, n.id.NID)
	}
}

// close closes the node's interface, and checks that all messages that it has sent are complete. Later upcalls
// are faults.
func (n *node) close() {
	n.s.t.Helper()
	if !n.ready {
		return
	}
	ctx, cancel := n.s.closeContext()
	defer cancel()
	if err := n.i.Close(ctx); err != nil {
		n.s.t.Errorf("node %d: close: %v", n.k, err)
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.ready, n.closed = false, true
	for _, o := range n.sent {
		if o.completions == 0 {
			n.s.t.Errorf("node %d: message %d was not complete when Close returned", n.k, o.id())
		}
	}
}

// setPolicy sets the policy for later arrivals.
func (n *node) setPolicy(p policy) { n.s.note(func() { n.policy = p }) }

// setHook makes later Arrived upcalls call f before the policy. If f is nil, they call nothing.
func (n *node) setHook(f func(*arrival)) { n.s.note(func() { n.hook = f }) }

// Arrived implements lnd.Upper.
func (n *node) Arrived(m *lnd.Rx) error {
	s := n.s
	s.mu.Lock()
	n.alive("Arrived")
	a := &arrival{n: n, m: m, header: m.Header, from: m.From, rdma: m.RDMA}
	n.meets(a)
	n.current[m] = a
	n.arrivals[a.id()] = append(n.arrivals[a.id()], a)
	n.order = append(n.order, a)
	if n.ready {
		a.i = n.i
	}
	s.changed.Broadcast()
	if hook := n.hook; hook != nil {
		s.mu.Unlock()
		hook(a)
		s.mu.Lock()
	}
	decide := n.policy
	if decide == nil {
		decide = keepAll
	}
	p, later, err := decide(a)
	if err == nil && (later || !n.ready) {
		n.held = append(n.held, a)
		s.mu.Unlock()
		return nil
	}
	if err != nil {
		a.refused = true
		s.mu.Unlock()
		return err
	}
	a.give(p)
	a.prompt = true
	s.mu.Unlock()
	a.i.Receive(m, p)
	return nil
}

// Withdrawn implements lnd.Upper.
func (n *node) Withdrawn(m *lnd.Rx) {
	s := n.s
	s.mu.Lock()
	n.alive("Withdrawn")
	a := n.current[m]
	switch {
	case a == nil || a.refused:
		s.fault(fmt.Sprintf("node %d: Withdrawn without an arrival", n.k))
		s.mu.Unlock()
		return
	case a.withdrawn:
		s.fault(fmt.Sprintf("node %d: Withdrawn twice for an arrival", n.k))
	case a.prompt:
		s.fault(fmt.Sprintf("node %d: Withdrawn for an arrival that was placed within its upcall", n.k))
	case a.completions > 0:
		s.fault(fmt.Sprintf("node %d: Withdrawn for an arrival that was complete", n.k))
	}
	a.withdrawn, a.withdrawing = true, true
	gone := n.gone
	s.changed.Broadcast()
	s.mu.Unlock()
	if gone != nil {
		gone(a)
	}
	s.note(func() { a.withdrawing = false })
}

// place gives the placement of all held arrivals: the whole payload is kept. This also becomes the policy for
// later arrivals. The node may be closed.
func (n *node) place() {
	n.answer(func(a *arrival) lnd.Placement { return a.keep(a.payload()) })
}

// answer gives the placements that with returns to all held arrivals. The policy for later arrivals is then to
// keep the whole payload.
func (n *node) answer(with func(*arrival) lnd.Placement) {
	n.s.mu.Lock()
	held := n.held
	n.held = nil
	n.policy = nil
	var places []lnd.Placement
	for _, a := range held {
		p := with(a)
		a.give(p)
		places = append(places, p)
		if a.i == nil {
			a.i = n.i
		}
	}
	n.s.mu.Unlock()
	for k, a := range held {
		a.i.Receive(a.m, places[k])
	}
}

// placeLater is place in another goroutine. It waits for that.
func (n *node) placeLater() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.place()
	}()
	<-done
}

// PeerDown implements lnd.Upper.
func (n *node) PeerDown(d lnd.PeerDown) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.alive("PeerDown")
	n.downs = append(n.downs, d)
	n.s.changed.Broadcast()
}

// LNDTimeout implements lnd.Upper.
func (n *node) LNDTimeout() time.Duration { return 0 }

// Vouched implements lnd.Upper.
func (n *node) Vouched(lnet.NID) bool { return false }

// PeerStalled implements lnd.Upper.
func (n *node) PeerStalled(peer lnet.NID, since time.Time) {
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n.alive("PeerStalled")
	before, known := n.stalls[peer]
	switch {
	case since.IsZero() && !known:
		s.fault(fmt.Sprintf("node %d: told that %s answers, of which it has not been told that it does not", n.k, peer))
	case since.IsZero():
		delete(n.stalls, peer)
	case time.Since(since) < time.Second || known && since.After(before):
		s.fault(fmt.Sprintf("node %d: %s does not answer since %v, before it was since %v", n.k, peer, since, before))
	default:
		n.stalls[peer] = since
	}
	s.changed.Broadcast()
}

// ConnectionsLost implements lnd.Upper.
func (n *node) ConnectionsLost(peer lnet.NID) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.alive("ConnectionsLost")
	n.losses = append(n.losses, peer)
	n.s.changed.Broadcast()
}

// LinkChanged implements lnd.Upper.
func (n *node) LinkChanged(l lnd.LinkState) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.alive("LinkChanged")
	n.links = append(n.links, l)
	n.s.changed.Broadcast()
}

// alive records a fault if the upcall or completion called what is made after Close has returned. The records
// are locked.
func (n *node) alive(what string) {
	if n.closed {
		n.s.fault(fmt.Sprintf("node %d: %s after Close had returned", n.k, what))
	}
}

// downOf returns how often PeerDown was called for a peer. The records are locked.
func (n *node) downOf(peer *node) int {
	count := 0
	for _, d := range n.downs {
		if d.Peer == peer.id.NID {
			count++
		}
	}
	return count
}

// lossesOf returns how often ConnectionsLost was called for a peer. The records are locked.
func (n *node) lossesOf(peer *node) int {
	count := 0
	for _, nid := range n.losses {
		if nid == peer.id.NID {
			count++
		}
	}
	return count
}

// from returns the number of arrivals from a peer. The records are locked.
func (n *node) from(peer *node) int {
	count := 0
	for _, a := range n.order {
		if a.from == peer.id {
			count++
		}
	}
	return count
}

func (n *node) describe(b *strings.Builder) {
	open, failed := 0, 0
	for _, o := range n.sent {
		if o.completions == 0 {
			open++
		} else if o.err != nil {
			failed++
		}
	}
	fmt.Fprintf(b, "node %d: sent %d, not complete %d, failed %d; arrived %d, held %d; peers down %d\n",
		n.k, len(n.sent), open, failed, len(n.order), len(n.held), len(n.downs))
	for _, o := range n.sent {
		if o.err != nil {
			fmt.Fprintf(b, "\tmessage %d, %s of %d bytes: %v\n", o.id(), o.Header.Type, o.Payload.Length, o.err)
			break
		}
	}
}

func asError(err error) (*lnd.Error, bool) {
	var e *lnd.Error
	return e, errors.As(err, &e)
}
