package selftest

import (
	"sync"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a process that adds client tests but never provides their destinations, when the console sends a
// request, then it is answered immediately. Only a limited number of tests wait for their lists, and further
// ones are refused. When the waiting tests have ended, new ones are accepted again.
func TestListsThatNobodyHandsOut(t *testing.T) {
	for _, flood := range []int{1, maxFetching + 30} {
		onStage(t, func(t *testing.T, s *stage) {
			node := s.player("node", "10.0.0.3").agent(Config{})
			con := s.player("console", "10.0.0.1").console(1)
			con.make(node, false)
			x := s.stranger(node, nil, 0)
			for range flood {
				q := con.test(1)
				q.ReplyID, q.BulkID, q.Destinations = strangeReply, strangeBulk, 1
				x.send(node, message.FrameworkPortal, uint64(message.ServiceTest), q.Append(nil))
			}
			refused := max(flood-maxFetching, 0)
			replies := x.answers()
			if len(replies) != refused {
				t.Errorf("of %d tests %d are refused, want %d", flood, len(replies), refused)
			}
			for _, b := range replies {
				if _, status, err := message.ReplyStatus(b, message.TypeTestRequest.Reply()); err != nil || status != message.ENOMEM {
					t.Errorf("refused with %v, %v", status, err)
				}
			}
			asked := time.Now()
			r := con.stat(node)
			if took := time.Since(asked); r.Status != message.OK || took > time.Second {
				t.Errorf("flood of %d: %v after %v", flood, r.Status, took)
			}
			time.Sleep(defaultRPCTimeout)
			if n := node.Counters().Dropped; int(n) != flood-refused {
				t.Errorf("%d tests dropped, want %d", n, flood-refused)
			}
			if status := con.add(node, con.test(1), node); status != message.OK {
				t.Errorf("a good test afterwards: %v", status)
			}
		})
	}
}

// Given a test whose list is being fetched, when another console takes the node over, then the test is
// refused and leaves no units.
func TestSessionIsStolenWhileAListComes(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.2").agent(Config{})
		con := s.player("console", "10.0.0.1").console(1)
		thief := s.player("thief", "10.0.0.9").console(2)
		con.make(client, false)
		s.SetLink(s.Host("console"), client.host, 0, latencyOf(time.Second))
		var added sync.WaitGroup
		added.Go(func() {
			if status := con.add(client, con.test(1), client); status != message.ENOENT {
				t.Errorf("add: %v", status)
			}
		})
		time.Sleep(2500 * time.Millisecond) // the list needs 3 s
		thief.make(client, true)
		added.Wait()
		if i, _ := client.Session(); i.ID != thief.id || len(i.Batches) != 0 || client.units.Load() != 0 {
			t.Errorf("%d units, %+v", client.units.Load(), i)
		}
	})
}

// Given an agent that serves only one request at a time, when a console sends a request before it has
// provided its list, then the request does not hold up the list behind it.
func TestListBehindARequest(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.2").agent(Config{MaxServing: waitingPart})
		con := s.player("console", "10.0.0.1").console(1)
		con.make(client, false)
		s.SetLink(s.Host("console"), client.host, 0, latencyOf(10*time.Millisecond))
		var asked sync.WaitGroup
		began := time.Now()
		asked.Go(func() {
			if status := con.add(client, con.test(1), client); status != message.OK {
				t.Errorf("add: %v", status)
			}
		})
		time.Sleep(time.Millisecond)
		con.debug(client)
		asked.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v", took)
		}
	})
}
