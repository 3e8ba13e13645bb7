package selftest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a server with a low limit of requests, when a client has more requests under way, then reads
// wait, and writes are served up to the limit, because their data comes behind later requests on the same
// connection. Requests beyond the limit are dropped. Nothing else fails, and the framework keeps
// answering.
func TestMoreRequestsThanMayBeServed(t *testing.T) {
	const most, loop = 64, 3
	for _, test := range []struct {
		op, units, dropped uint32
	}{
		{message.BRWRead, 2 * most, 0},
		{message.BRWWrite, most - 4, 0},
		{message.BRWWrite, 2 * most, most},
	} {
		for _, length := range []uint32{8, 1 << 20} { // these sizes use different connections
			t.Run(fmt.Sprintf("%d of operation %d, %d bytes", test.units, test.op, length), func(t *testing.T) {
				onStage(t, func(t *testing.T, s *stage) {
					client := s.player("client", "10.0.0.1").agent(Config{})
					server := s.player("server", "10.0.0.2").agent(Config{MaxServing: most})
					con := client.console(1)
					q := brw(con.test(1), test.op, length, message.CheckSimple)
					q.Concurrency, q.Loop = test.units, loop
					con.prepare(client, server, 1, q)
					con.run(client, 1)
					time.Sleep(30 * time.Second) // no RPC has timed out yet
					asked := time.Now()
					con.debug(server)
					if took := time.Since(asked); took > time.Second {
						t.Errorf("the framework answers after %v", took)
					}
					dropped := server.Counters().Dropped
					h, _ := client.Latency(1, 1)
					if dropped > test.dropped || h.Count() < uint64(loop*(test.units-dropped)) {
						t.Errorf("%d served, %d dropped, want %d at most", h.Count(), dropped, test.dropped)
					}
					con.idle(client, 1)
					if r := con.stat(client); r.Framework.BRWErrors != dropped {
						t.Errorf("%d dropped, %+v", dropped, r.Framework)
					}
				})
			})
		}
	}
}

// Given agents with the smallest limits, when several units run, then they take turns. Writes need room
// for all units, because their data must not be held up.
func TestLeastBounds(t *testing.T) {
	for _, test := range []struct {
		serving int
		kind    string
		change  func(q *message.TestRequest)
	}{
		{1, "ping", func(*message.TestRequest) {}},
		{1, "read", func(q *message.TestRequest) { brw(q, message.BRWRead, 64, message.CheckFull) }},
		{4, "write", func(q *message.TestRequest) { brw(q, message.BRWWrite, 64, message.CheckFull) }},
		{4, "large write", func(q *message.TestRequest) { brw(q, message.BRWWrite, 1<<20, message.CheckSimple) }},
	} {
		t.Run(test.kind, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				c := Config{
					MaxServing: test.serving, ClientMemory: 1, ServerMemory: 1, MaxUnits: 4, MaxTests: 1, BRWWorkItems: 1, PingWorkItems: 1,
				}
				client := s.player("client", "10.0.0.1").agent(c)
				server := s.player("server", "10.0.0.2").agent(c)
				con := client.console(1)
				q := con.test(1)
				test.change(q)
				q.Concurrency, q.Loop = 4, 50
				con.prepare(client, server, 1, q)
				con.run(client, 1)
				con.idle(client, 1)
				r := con.stat(client)
				if h, _ := client.Latency(1, 1); h.Count() != 200 || r.Framework.BRWErrors+r.Framework.PingErrors != 0 {
					t.Errorf("%d RPCs, %+v", h.Count(), r.Framework)
				}
			})
		})
	}
}

// Given an agent that is being closed, when a request uses its last buffer before that buffer is unlinked,
// then inbox.unposted is closed nevertheless, and the request is dropped.
func TestRequestWhileClosing(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		node := s.player("node", "10.0.0.3").agent(Config{MaxServing: waitingPart}) // one buffer at a time
		x := s.stranger(node, nil, 0)
		node.cancel()
		<-node.ended
		b := node.framework
		b.mu.Lock()
		b.closed = true
		b.mu.Unlock()
		if r := x.ask(node, &message.DebugRequest{Header: message.NewHeader(1), ReplyID: strangeReply}); r != nil {
			t.Errorf("answered: %x", r)
		}
		select {
		case <-b.unposted:
		default:
			t.Error("whoever closes it would wait")
		}
		node.close()
		if c := node.Counters(); c.Received != 1 || c.Dropped != 1 {
			t.Errorf("%+v", c)
		}
	})
}
