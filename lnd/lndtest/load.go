package lndtest

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Load: messages of all sizes in both directions at the same time, and answers of 1 MiB in both directions. A
// driver whose readers also write would block because of such answers.
var loadCases = []scenario{
	{name: "MixedBothWays", nodes: 2, run: mixedBothWays},
	{name: "BothAnswerLargeGets", nodes: 2, run: bothAnswerLargeGets},
	{name: "Incast", nodes: 5, run: incast},
}

func mixedBothWays(s *stage) {
	n := s.open(2)
	const senders = 4
	out := [2][senders][]*outgoing{}
	var wg sync.WaitGroup
	for k := range n {
		for g := range senders {
			wg.Go(func() {
				for j := range 40 {
					size := []int{0, 50, 920, 928, 4096, 100_000, lnet.MTU}[(j+g)%7]
					out[k][g] = append(out[k][g], n[k].put(n[1-k], size))
				}
			})
		}
	}
	wg.Wait()
	for k := range n {
		for g := range senders {
			s.awaitDelivered(n[1-k], out[k][g]...)
		}
	}
}

// bothAnswerLargeGets makes both nodes send many GETs of 1 MiB at the same time, which each answers from its
// handler.
func bothAnswerLargeGets(s *stage) {
	n := s.open(2)
	const gets = 40
	var replies [2][]*outgoing
	for k, x := range n {
		x.setHook(func(a *arrival) {
			if a.header.Type != lnet.MsgGet || a.rdma {
				return
			}
			o := x.message(lnet.MsgReply, n[1-k], lnet.MTU, 1)
			x.send(o)
			s.note(func() { replies[k] = append(replies[k], o) })
		})
		x.setPolicy(func(a *arrival) (lnd.Placement, bool, error) {
			p := a.keep(a.payload())
			if a.rdma {
				g := newGuarded(lnet.MTU, 1)
				g.fill(a.id())
				p.Reply = g.memory()
			}
			return p, false, nil
		})
	}
	var asked [2][]*outgoing
	var wg sync.WaitGroup
	for k, x := range n {
		wg.Go(func() {
			for range gets {
				o := x.message(lnet.MsgGet, n[1-k], 0, 1)
				o.Header.Length = lnet.MTU
				o.sink = newGuarded(lnet.MTU, 1)
				o.Sink = o.sink.memory()
				asked[k] = append(asked[k], x.send(o))
			}
		})
	}
	wg.Wait()
	for k := range n {
		s.awaitDelivered(n[1-k], asked[k]...)
	}
	for k := range n {
		replied := 0
		for _, o := range asked[k] {
			if !o.Replied {
				continue
			}
			replied++
			if err := o.sink.checkPattern(o.id()); err != nil {
				s.t.Errorf("sink of message %d: %v", o.id(), err)
			}
		}
		s.await("replies", func() bool { return len(replies[1-k]) == gets-replied })
		s.awaitDelivered(n[k], replies[1-k]...)
	}
}

// incast sends large messages from four nodes to one.
func incast(s *stage) {
	n := s.open(5)
	out := make([][]*outgoing, 5)
	var wg sync.WaitGroup
	for k := 1; k < 5; k++ {
		wg.Go(func() { out[k] = n[k].puts(n[0], 20, 300_000) })
	}
	wg.Wait()
	for _, list := range out {
		s.awaitDelivered(n[0], list...)
	}
}
