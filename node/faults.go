package node

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// heldMessages are those that delay rules hold: arrivals that have no place
// yet, and messages that have their credits and would leave (lnet-core 11.2).
type heldMessages struct {
	// mu guards list and closed, and makes one step of a rule's word and the
	// message's way into the list.
	mu     sync.Mutex
	list   []heldMessage
	closed bool // nothing is held any more
}

type heldMessage struct {
	m     *message
	rule  fault.ID
	until int64
}

// hold keeps m if a delay rule wants that.
func (n *Node) hold(m *message, about *fault.Message) bool {
	h := &n.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || m.ni.closing.Load() {
		return false
	}
	until, rule, held := n.faults.Hold(about, n.now())
	if held {
		h.list = append(h.list, heldMessage{m: m, rule: rule, until: until})
	}
	return held
}

// take takes out the messages for which match is true, in order.
func (h *heldMessages) take(match func(*heldMessage) bool) []heldMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []heldMessage
	kept := h.list[:0]
	for k := range h.list {
		if match(&h.list[k]) {
			out = append(out, h.list[k])
		} else {
			kept = append(kept, h.list[k])
		}
	}
	clear(h.list[len(kept):])
	h.list = kept
	return out
}

// release lets held messages go on, but for those whose MD was unlinked meanwhile.
func (n *Node) release(messages []heldMessage) {
	var ready messageQueue
	for _, h := range messages {
		switch {
		case h.m.arrival.rx != nil:
			h.m.dispatch()
		case h.m.aborted():
			h.m.unsent(ErrCanceled, &ready)
			n.transmitAll(&ready)
		default:
			n.transmit(h.m)
		}
	}
}

// close holds nothing any more.
func (h *heldMessages) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
}

// aboutArrival is what rules see of a message that came to i.
func (i *ni) aboutArrival(h *lnet.Header) fault.Message {
	return fault.Message{Source: h.Src, Dest: h.Dest, Local: i.NID, Type: h.Type, Portal: h.Portal}
}

// dropByRule tells whether an arrived message is to be discarded.
func (n *Node) dropByRule(i *ni, rx *lnd.Rx) bool {
	h := &rx.Header
	if n.faults.Fails(h.Src) {
		return true
	}
	about := i.aboutArrival(h)
	return n.faults.DropArrival(&about, n.now())
}

// holdArrival keeps an arrived message if a delay rule wants that.
func (m *message) holdArrival() bool {
	about := m.ni.aboutArrival(&m.arrival.rx.Header)
	return m.node.hold(m, &about)
}

// inject asks the rules about a message that has its credits: it may be held,
// once, or must fail.
func (m *message) inject() (held bool, err error) {
	n := m.node
	h := &m.tx.Header
	about := fault.Message{Source: h.Src, Dest: h.Dest, Type: h.Type, Portal: h.Portal}
	if !m.out.delayed {
		m.out.delayed = true
		if n.hold(m, &about) {
			return true, nil
		}
	}
	if s, fails := n.faults.FailSend(&about, n.now()); fails {
		return false, &lnd.Error{Driver: "node", Op: "send", Peer: m.tx.To.NID, Status: s, Err: errRule}
	}
	return false, nil
}

// AddFault adds a rule by which messages are dropped, fail or are held, for
// tests and exercises. It acts on messages from now on; fault.ErrInvalid if it
// makes no sense.
func (n *Node) AddFault(r fault.Rule) error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	if err := n.faults.Add(r, n.now()); err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	return nil
}

// RemoveFaults removes the rules with these filters and returns how many they
// were; what they held goes on at once.
func (n *Node) RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int {
	n.made().held.mu.Lock()
	gone := n.faults.Remove(k, source, dest)
	n.held.mu.Unlock()
	n.release(n.held.take(func(h *heldMessage) bool {
		return slices.Contains(gone, h.rule)
	}))
	return len(gone)
}

// Faults lists the rules of a kind, the newest first.
func (n *Node) Faults(k fault.Kind) []fault.Status { return n.made().faults.List(k) }

// ResetFaults zeroes what the rules have counted.
func (n *Node) ResetFaults() { n.made().faults.Reset() }

// FailNID makes the next count PUTs and GETs to a NID fail at once with
// ErrFailNID, and messages from it be dropped: fault.Forever for all, 0 to end
// it, AnyNID for everybody.
func (n *Node) FailNID(nid lnet.NID, count int) error {
	if err := n.exists(); err != nil {
		return fmt.Errorf("fail %s: %w", nid, err)
	}
	return n.faults.FailNID(nid, count)
}
