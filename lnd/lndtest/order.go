package lndtest

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
)

// Order: messages on one connection keep theirs, and nothing is lost or
// doubled, however many goroutines send.
var orderCases = []scenario{
	{name: "OneSender", nodes: 2, run: func(s *stage) { manySenders(s, 1, 1000, 50) }},
	{name: "OneSenderLarge", nodes: 2, run: func(s *stage) { manySenders(s, 1, 100, 20_000) }},
	{name: "ManySenders", nodes: 2, run: func(s *stage) { manySenders(s, 16, 100, 200) }},
	{name: "ManySendersBeforeConnecting", nodes: 2, run: func(s *stage) { manySenders(s, 64, 1, 5000) }},
	{name: "HeldBack", nodes: 2, run: orderHeldBack},
}

func manySenders(s *stage, senders, each, size int) {
	n := s.open(2)
	out := make([][]*outgoing, senders)
	var wg sync.WaitGroup
	for k := range out {
		wg.Go(func() { out[k] = n[0].puts(n[1], each, size) })
	}
	wg.Wait()
	for _, list := range out {
		s.awaitDelivered(n[1], list...)
		if size < largeMessage {
			s.checkOrder(n[1], list)
		}
	}
}

// largeMessage is where messages begin that may have a connection of their
// own: while it is being opened they travel with the small ones, and those that
// come after it stands may overtake them.
const largeMessage = 1000

// orderHeldBack holds every third message for a while.
func orderHeldBack(s *stage) {
	n := s.open(2)
	count := 0
	n[1].setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
		if count++; count%3 == 0 {
			return lnd.Placement{}, true, nil
		}
		return keepAll(a)
	})
	out := n[0].puts(n[1], 60, 500)
	for {
		s.await("another arrival", func() bool { return len(n[1].held) > 0 || n[1].placedOf(out) == len(out) })
		s.mu.Lock()
		over := len(n[1].held) == 0
		policyBefore := n[1].policy
		s.mu.Unlock()
		if over {
			break
		}
		n[1].placeLater()
		n[1].setPolicy(policyBefore)
	}
	s.awaitDelivered(n[1], out...)
	s.checkOrder(n[1], out)
}

// placedOf counts the arrivals of out that have their place. The records are
// locked.
func (n *node) placedOf(out []*outgoing) int {
	count := 0
	for _, o := range out {
		for _, a := range n.arrivals[o.id()] {
			if a.placed {
				count++
			}
		}
	}
	return count
}

// checkOrder checks that messages sent one after the other arrived so.
func (s *stage) checkOrder(to *node, out []*outgoing) {
	s.t.Helper()
	if !s.h.Ordered {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := make(map[uint64]int)
	for k, o := range out {
		place[o.id()] = k
	}
	last := -1
	for _, a := range to.order {
		k, ours := place[a.id()]
		if !ours {
			continue
		}
		if k < last {
			s.t.Errorf("message %d of its sender arrived after message %d", k, last)
			return
		}
		last = k
	}
}
