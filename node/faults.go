package node

import (
	"fmt"
	"slices"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// heldMessages are the messages that delay rules hold: arrivals that have no placement
// yet, and messages that have their credits and are about to be sent (lnet-core 11.2).
type heldMessages struct {
	// mu guards list and closed. It is held from the decision of a delay rule to hold a
	// message until the message is in list, so that RemoveFaults finds it.
	mu     sync.Mutex
	list   []heldMessage
	closed bool // no more messages are held
}

type heldMessage struct {
	m     *message
	rule  fault.ID
	until int64
}

// delay reports whether a delay rule holds m. If so, m belongs to n.held until the rule's
// latency is over or the rule is removed.
func (n *Node) delay(m *message, about *fault.Message) bool {
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

// take removes and returns the messages for which match returns true, in order.
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

// release resumes messages that a delay rule held. A message whose MD was unlinked
// meanwhile is canceled.
func (n *Node) release(messages []heldMessage) {
	var ready messageQueue
	for _, h := range messages {
		switch {
		case h.m.arrival.rx != nil:
			h.m.dispatch()
		case h.m.aborted():
			h.m.endUnsent(ErrCanceled, &ready)
			n.transmitAll(&ready)
		default:
			n.transmit(h.m)
		}
	}
}

// close makes Node.delay hold no more messages.
func (h *heldMessages) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
}

// aboutArrival returns the properties of a message that arrived on i, for fault rules.
func (i *ni) aboutArrival(h *lnet.Header) fault.Message {
	return fault.Message{Source: h.Src, Dest: h.Dest, Local: i.NID, Type: h.Type, Portal: h.Portal}
}

// dropByRule reports whether a fault rule drops a message that has arrived.
func (n *Node) dropByRule(i *ni, rx *lnd.Rx) bool {
	h := &rx.Header
	if n.faults.Fails(h.Src) {
		return true
	}
	about := i.aboutArrival(h)
	return n.faults.DropArrival(&about, n.now())
}

// holdArrival reports whether a delay rule holds m, which has arrived. If so, m no longer
// belongs to the caller.
func (m *message) holdArrival() bool {
	about := m.ni.aboutArrival(&m.arrival.rx.Header)
	return m.node.delay(m, &about)
}

// inject applies the fault rules to m, which has its credits. If held is true, a delay
// rule holds m, which happens at most once per attempt, and m no longer belongs to the
// caller. If err is not nil, a drop rule makes the attempt fail, and the caller must end
// it with err.
func (m *message) inject() (held bool, err error) {
	n := m.node
	h := &m.tx.Header
	about := fault.Message{Source: h.Src, Dest: h.Dest, Type: h.Type, Portal: h.Portal}
	if !m.out.delayed {
		m.out.delayed = true
		if n.delay(m, &about) {
			return true, nil
		}
	}
	if s, fails := n.faults.FailSend(&about, n.now()); fails {
		return false, &lnd.Error{Driver: "node", Op: "send", Peer: m.tx.To.NID, Status: s, Err: errRule}
	}
	return false, nil
}

// AddFault adds a rule that drops, fails or holds messages, for tests. The rule applies to
// messages that arrive or are sent after the call. AddFault returns fault.ErrInvalid if
// the rule is invalid.
func (a *Admin) AddFault(r fault.Rule) error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	if err := n.faults.Add(r, n.now()); err != nil {
		return fmt.Errorf("add fault: %w", err)
	}
	return nil
}

// RemoveFaults removes the rules of kind k with exactly these filters, and returns how
// many it removed. A filter for all NIDs stands for any filter. Messages that the rules
// held continue immediately.
func (a *Admin) RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int {
	n := a.n
	if !n.isMade() {
		return 0
	}
	n.held.mu.Lock()
	gone := n.faults.Remove(k, source, dest)
	n.held.mu.Unlock()
	n.release(n.held.take(func(h *heldMessage) bool {
		return slices.Contains(gone, h.rule)
	}))
	return len(gone)
}

// Faults lists the rules of kind k with their counters, newest first.
func (a *Admin) Faults(k fault.Kind) []fault.Status {
	if !a.n.isMade() {
		return nil
	}
	return a.n.faults.List(k)
}

// ResetFaults zeroes the counters of the rules.
func (a *Admin) ResetFaults() {
	if a.n.isMade() {
		a.n.faults.Reset()
	}
}

// FailNID makes the next count messages to or from nid fail: a PUT or GET to nid fails at
// once with ErrFailNID, and a message from nid is dropped. With the count fault.Forever
// all further messages fail. A count of 0 removes an earlier count. lnet.AnyNID stands for
// every NID.
func (a *Admin) FailNID(nid lnet.NID, count int) error {
	n := a.n
	if err := n.checkMade(); err != nil {
		return fmt.Errorf("fail %s: %w", nid, err)
	}
	return n.faults.FailNID(nid, count)
}
