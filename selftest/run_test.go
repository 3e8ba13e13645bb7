package selftest

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given a client and a server, when the recorded ping session is replayed (loop 5, concurrency 2), then
// the counters are those that the kernels reported.
//
// selftest 3 counters, 4.10 (1)
func TestRecordedPingSession(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.13").console(34844)
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12").agent(Config{})
		q := con.test(2)
		q.Loop, q.Concurrency = 5, 2
		con.prepare(client, server, 2, q)
		con.run(client, 2)
		con.idle(client, 2)
		if r := con.batch(client, 2, message.BatchStop, 0, 0); r.Status != message.OK {
			t.Errorf("stop: %v", r.Status)
		}
		c, v := con.stat(client), con.stat(server)
		if c.RPC.Sent != 10 || c.RPC.BulkGet != 12 || c.RPC.Errors != 0 || c.RPC.Dropped != 0 {
			t.Errorf("client: %+v", c.RPC)
		}
		if v.RPC.Received != 13 || v.RPC.Errors != 0 || v.RPC.Dropped != 0 {
			t.Errorf("server: %+v", v.RPC)
		}
		if c.Framework.PingErrors != 0 || c.Framework.ActiveBatches != 0 {
			t.Errorf("client: %+v", c.Framework)
		}
		i, ok := client.Session()
		if !ok || len(i.Batches) != 1 || len(i.Batches[0].Tests) != 1 || i.Batches[0].Tests[0].Latency.Count() != 10 {
			t.Errorf("session %+v", i)
		}
		for _, p := range []*player{client, server} {
			if r := con.remove(p); r.Status != message.OK || r.Session != message.NoSession {
				t.Errorf("remove: %+v", r)
			}
		}
	})
}

// Given every combination of direction, check, size and version, when several units transfer a few bulks,
// then there are no errors, and all bytes are counted.
//
// selftest 1 messages, 2.4, 3 server (1), 3 counters, 5 (1)
func TestBulk(t *testing.T) {
	for _, op := range []uint32{message.BRWRead, message.BRWWrite} {
		for check := message.CheckNone; check <= message.CheckDiscard; check++ {
			for _, features := range []message.Features{0, message.BulkLength} {
				for _, size := range []uint32{8, 4096, 8192, 262144, 1 << 20} {
					if features == 0 && size%message.PageSize != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%d %v %d %d", op, check, features, size), func(t *testing.T) {
						onStage(t, func(t *testing.T, s *stage) { moveBulk(t, s, op, check, features, size) })
					})
				}
			}
		}
	}
}

func moveBulk(t *testing.T, s *stage, op uint32, check message.Check, features message.Features, size uint32) {
	client := s.player("client", "10.0.0.11").agent(Config{})
	server := s.player("server", "10.0.0.12").agent(Config{})
	con := client.console(1)
	con.features = features
	q := brw(con.test(1), op, size, check)
	q.Loop, q.Concurrency = 3, 2
	con.prepare(client, server, 1, q)
	sent, received := server.puts()
	con.run(client, 1)
	con.idle(client, 1)
	// Six requests and replies, the bulks of reads, and no ACKs.
	answers := uint64(6)
	if op == message.BRWRead {
		answers = 12
	}
	if n, m := server.puts(); n-sent != answers || m-received != 6 {
		t.Errorf("the server has sent %d messages and got %d, want %d and 6", n-sent, m-received, answers)
	}
	c, v := con.stat(client), con.stat(server)
	if c.Framework.BRWErrors != 0 || c.RPC.Errors+v.RPC.Errors != 0 || v.RPC.Dropped != 0 {
		t.Errorf("client %+v %+v, server %+v", c.Framework, c.RPC, v.RPC)
	}
	moved := v.RPC.BulkPut
	if op == message.BRWWrite {
		moved = v.RPC.BulkGet
	}
	if moved != 6*uint64(size) {
		t.Errorf("%d bytes moved", moved)
	}
	if h, ok := client.Latency(1, 1); !ok || h.Count() != 6 {
		t.Errorf("%d RPCs seen", h.Count())
	}
}

// Given a console of the other byte order, when it sets up and runs tests of all kinds, then its requests
// and lists are decoded, and it receives answers.
func TestBigEndianConsole(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12").agent(Config{})
		con := s.player("console", "10.0.0.1").console(1)
		con.order = message.BigEndian
		for batch, q := range []*message.TestRequest{
			con.test(0), brw(con.test(1), message.BRWRead, 8192, message.CheckFull),
			brw(con.test(2), message.BRWWrite, 8192, message.CheckFull),
		} {
			q.Loop = 5
			con.prepare(client, server, uint64(batch), q)
			con.run(client, uint64(batch))
			con.idle(client, uint64(batch))
			if h, _ := client.Latency(uint64(batch), 1); h.Count() != 5 {
				t.Errorf("batch %d: %d RPCs", batch, h.Count())
			}
		}
		r := con.stat(client)
		if r.Framework.BRWErrors+r.Framework.PingErrors+r.RPC.Errors != 0 {
			t.Errorf("%+v", r)
		}
		if i, ok := client.Session(); !ok || i.ID != con.id || i.Name != "session 1" {
			t.Errorf("%+v", i)
		}
	})
}

// Given two nodes on real TCP, when all kinds of tests run in one batch, then there are no errors.
//
// selftest 11 (2)
func TestOverTCP(t *testing.T) {
	client, server := overTCP(t), overTCP(t)
	con := client.console(1)
	con.make(server, false)
	con.make(client, false)
	tests := 0
	for _, change := range []func(q *message.TestRequest){
		func(*message.TestRequest) {},
		func(q *message.TestRequest) { brw(q, message.BRWRead, 1<<20, message.CheckFull) },
		func(q *message.TestRequest) { brw(q, message.BRWWrite, 1<<20, message.CheckFull) },
		func(q *message.TestRequest) { brw(q, message.BRWRead, 8, message.CheckSimple) },
		func(q *message.TestRequest) { brw(q, message.BRWWrite, 928, message.CheckSimple) },
	} {
		q := con.test(1)
		change(q)
		q.Loop, q.Concurrency = 50, 4
		for _, status := range []message.Status{con.add(server, q), con.add(client, q, server)} {
			if status != message.OK {
				t.Fatal(status)
			}
		}
		tests++
	}
	con.run(client, 1)
	for con.batch(client, 1, message.BatchQuery, 0, 0).Active > 0 {
		runtime.Gosched() // each query is a message in both directions
	}
	if r := con.stat(client); r.Framework.BRWErrors+r.Framework.PingErrors != 0 {
		t.Errorf("%+v, %+v", r.Framework, r.RPC)
	}
	for index := 1; index <= tests; index++ {
		if h, ok := client.Latency(1, index); !ok || h.Count() != 200 {
			t.Errorf("test %d: %d RPCs", index, h.Count())
		}
	}
}
