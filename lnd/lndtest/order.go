package lndtest

import (
	"slices"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Order: messages on one connection keep their order, and each arrives exactly once, however many
// goroutines send.
var orderCases = []scenario{
	{name: "OneSender", nodes: 2, run: func(s *stage) { manySenders(s, 1, 1000, 50) }},
	{name: "OneSenderLarge", nodes: 2, run: func(s *stage) { manySenders(s, 1, 100, 20_000) }},
	{name: "ManySenders", nodes: 2, run: func(s *stage) { manySenders(s, 16, 100, 200) }},
	{name: "ManySendersBeforeConnecting", nodes: 2, run: func(s *stage) { manySenders(s, 64, 1, 5000) }},
	{name: "HeldBack", nodes: 2, run: orderHeldBack},
	{name: "UrgentFirst", nodes: 2, run: func(s *stage) { urgentFirst(s, 100) }},
	{name: "UrgentLargeFirst", nodes: 2, run: func(s *stage) { urgentFirst(s, largeUrgent) }},
}

// largeUrgent is the size in bytes of urgent messages that use the bulk connection, in drivers that have such
// connections.
const largeUrgent = 5000

// urgentFirst checks that urgent messages arrive before bulk data that waits for a slow peer, and that they
// keep their order.
func urgentFirst(s *stage, size int) {
	n := s.open(2)
	s.awaitDelivered(n[1], n[0].puts(n[1], 3, largeUrgent)...)
	n[1].setPolicy(holdAll)
	bulk := n[0].puts(n[1], 120, 256<<10) // more than the credits and the buffers of the network permit to send
	s.await("an arrival", func() bool { return len(n[1].held) > 0 })
	s.pause(100 * time.Millisecond) // meanwhile the buffers of the network fill up
	urgent := make([]*outgoing, 5)
	for k := range urgent {
		urgent[k] = n[0].message(lnet.MsgPut, n[1], size, 1)
		urgent[k].Urgent = true
		n[0].send(urgent[k])
	}
	s.pause(100 * time.Millisecond) // meanwhile urgent messages that use a separate connection arrive
	n[1].setPolicy(keepAll)
	n[1].place()
	s.awaitDelivered(n[1], urgent...)
	s.awaitDelivered(n[1], bulk...)
	s.checkOrder(n[1], urgent)
	if n := s.arrivedAfter(n[1], urgent[0], bulk); n == 0 {
		s.t.Errorf("%d messages that waited all arrived before an urgent one", len(bulk))
	}
}

// arrivedAfter returns how many messages of list arrived at n after the message first.
func (s *stage) arrivedAfter(n *node, first *outgoing, list []*outgoing) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := false
	for _, a := range n.order {
		seen = seen || a.id() == first.id()
		if seen && slices.ContainsFunc(list, func(o *outgoing) bool { return o.id() == a.id() }) {
			count++
		}
	}
	return count
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

// largeMessage is the size in bytes from which messages may use a separate connection. They use the connection
// of small messages until that is open. Later messages may then overtake them, so their order is not checked.
const largeMessage = 1000

// orderHeldBack delays the placement of every third message, which must not change the order of arrival.
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

// placedOf returns how many messages of out have been placed. The records are locked.
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

// checkOrder checks that the messages of out have arrived in their order, if Harness.Ordered is set.
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
