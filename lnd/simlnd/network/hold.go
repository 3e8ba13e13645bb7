package network

import "slices"

// Hold delays connection requests until Release is called. With it, a test can make both sides connect to each
// other at the same moment. Its methods lock the network.
type Hold[L any] struct {
	n       *Network[L]
	ways    []Way
	waiting []*request // delayed requests, oldest first
}

// request is a delayed connection request.
type request struct{ resume func() }

// Hold starts to delay the connection requests on the given ways.
func (n *Network[L]) Hold(ways []Way) *Hold[L] {
	h := &Hold[L]{n: n, ways: ways}
	n.holds = append(n.holds, h)
	return h
}

// Delay delays a connection request on the way w if a Hold applies to it. resume is called, with the lock held,
// when the Hold is released, unless cancel is called before. If no Hold applies, Delay does nothing and returns
// nil.
func (n *Network[L]) Delay(w Way, resume func()) (cancel func()) {
	for _, h := range n.holds {
		if !slices.Contains(h.ways, w) {
			continue
		}
		r := &request{resume}
		h.waiting = append(h.waiting, r)
		n.counters.held.Add(1)
		return func() {
			h.waiting = slices.DeleteFunc(h.waiting, func(x *request) bool { return x == r })
		}
	}
	return nil
}

// Waiting returns the number of delayed requests.
func (h *Hold[L]) Waiting() int {
	h.n.lock.Lock()
	defer h.n.lock.Unlock()
	return len(h.waiting)
}

// Release ends the hold. The delayed requests continue, in the order in which they were made.
func (h *Hold[L]) Release() {
	h.n.lock.Lock()
	defer h.n.lock.Unlock()
	h.n.holds = slices.DeleteFunc(h.n.holds, func(x *Hold[L]) bool { return x == h })
	waiting := h.waiting
	h.waiting = nil
	for _, r := range waiting {
		r.resume()
	}
}
