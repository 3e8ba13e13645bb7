package selftest

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given nodes that corrupt what they send, when bulks are checked, then each corrupt bulk is found and no
// other, for all senders and receivers.
//
// selftest 5 (3)-(4), 5 (8), 11 (6)
func TestInjectedErrorsAreFoundExactly(t *testing.T) {
	for _, op := range []uint32{message.BRWRead, message.BRWWrite} {
		for _, check := range []message.Check{message.CheckSimple, message.CheckFull} {
			onStage(t, func(t *testing.T, s *stage) {
				client := s.player("client", "10.0.0.11").agent(Config{InjectErrors: 3})
				server := s.player("server", "10.0.0.12").agent(Config{InjectErrors: 3})
				con := client.console(1)
				q := brw(con.test(1), op, 8192, check)
				q.Loop, q.Concurrency, q.StopOnError = 50, 2, false
				con.prepare(client, server, 1, q)
				con.run(client, 1)
				con.idle(client, 1)
				spoilt := client.Spoilt() + server.Spoilt()
				if r := con.stat(client); uint64(r.Framework.BRWErrors) != spoilt || spoilt < 10 || spoilt > 90 {
					t.Errorf("%d, %v: %d spoilt, %+v", op, check, spoilt, r.Framework)
				}
			})
		}
	}
}

// Given a test that stops on errors, when a bulk is corrupt, then the unit ends.
//
// selftest 4.10 (3), 5 (4)
func TestStopOnError(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12").agent(Config{InjectErrors: 1})
		con := client.console(1)
		q := brw(con.test(1), message.BRWRead, 1<<20, message.CheckFull)
		q.Concurrency = 3
		con.prepare(client, server, 1, q)
		con.run(client, 1)
		con.idle(client, 1)
		if r := con.stat(client); r.Framework.BRWErrors != 3 || r.Framework.ActiveBatches != 0 {
			t.Errorf("%+v", r.Framework)
		}
	})
}

// Given little memory for bulks, when many units need some, then they take turns and all get memory. When
// they are stopped, the waiting ones end, too.
func TestLittleMemory(t *testing.T) {
	for _, op := range []uint32{message.BRWRead, message.BRWWrite} {
		onStage(t, func(t *testing.T, s *stage) {
			const limit = 2 << 20
			c := Config{ClientMemory: limit, ServerMemory: limit}
			client := s.player("client", "10.0.0.11").agent(c)
			server := s.player("server", "10.0.0.12").agent(c)
			con := client.console(1)
			q := brw(con.test(1), op, 1<<20, message.CheckFull)
			q.Loop, q.Concurrency = 3, 50
			con.prepare(client, server, 1, q)
			con.run(client, 1)
			con.idle(client, 1)
			if h, _ := client.Latency(1, 1); h.Count() != 150 {
				t.Errorf("%d RPCs", h.Count())
			}
			s.Partition(client.host, server.host, 0)
			for _, force := range []uint32{1, 0} {
				con.run(client, 1)
				time.Sleep(time.Second)
				if c, v := inUse(client.clientMemory), inUse(server.serverMemory); c > limit || v > limit {
					t.Errorf("%d and %d bytes in use", c, v)
				}
				con.batch(client, 1, message.BatchStop, 0, force)
				con.idle(client, 1)
			}
			if r := con.stat(client); r.Framework.BRWErrors != 0 {
				t.Errorf("%+v", r.Framework)
			}
		})
	}
}

// Given a multi-rail server and client that have not discovered each other, when the client's test names
// a NID that is not the server's first, then replies and bulks reach their buffers.
//
// selftest 1 (3)-(4)
func TestMultiRail(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11", "10.0.1.11").agent(Config{})
		server := s.player("server", "10.0.0.12", "10.0.1.12", "10.0.2.12").agent(Config{})
		con := client.console(1)
		second := *server
		second.id.NID = server.node.NIs()[3].NID
		for batch, q := range []*message.TestRequest{
			con.test(0), brw(con.test(1), message.BRWRead, 65536, message.CheckFull),
			brw(con.test(2), message.BRWWrite, 65536, message.CheckFull),
		} {
			q.Loop, q.Concurrency = 20, 4
			con.prepare(client, &second, uint64(batch), q)
			con.run(client, uint64(batch))
			con.idle(client, uint64(batch))
			if r := con.stat(client); r.Framework.BRWErrors+r.Framework.PingErrors != 0 || r.RPC.Errors != 0 {
				t.Errorf("%d: %+v, %+v", batch, r.Framework, r.RPC)
			}
		}
		for _, i := range client.node.NIs()[1:] {
			if n := i.Traffic.Sent.Put; n < 80 { // of 240 requests
				t.Errorf("%s has sent %d requests", i.NID, n)
			}
		}
	})
}

// Given a server whose first NI serves a client, when the client addresses the NID of another NI, then
// replies leave from that NI, and so do the server's bulk GETs and PUTs.
//
// selftest 1 (4)
func TestAnswersLeaveFromTheNIDThatWasAsked(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12", "10.0.1.12").agent(Config{})
		for _, p := range []*player{client, server} {
			alone := p.node.Admin().Parameters()
			alone.Discovery = discovery.Off // otherwise all NIDs are equivalent
			if err := p.node.Admin().SetParameters(alone); err != nil {
				t.Fatal(err)
			}
		}
		con := client.console(1)
		con.make(server, false)
		second := *server
		second.id.NID = server.node.NIs()[2].NID
		before := server.node.NIs()[1].Traffic.Sent.Total()
		for batch, q := range []*message.TestRequest{
			con.test(0), brw(con.test(1), message.BRWRead, 4096, message.CheckFull), brw(con.test(2), message.BRWWrite, 4096, message.CheckFull),
		} {
			q.Loop = 5
			con.prepare(client, &second, uint64(batch), q)
			con.run(client, uint64(batch))
			con.idle(client, uint64(batch))
		}
		if status := con.add(&second, con.test(3), client); status != message.OK { // the server fetches its list
			t.Error(status)
		}
		if n := server.node.NIs()[1].Traffic.Sent.Total() - before; n != 0 {
			t.Errorf("%d messages left from the NID that was not asked", n)
		}
		if r := con.stat(client); r.Framework.BRWErrors+r.Framework.PingErrors != 0 {
			t.Errorf("%+v", r.Framework)
		}
	})
}

// Given agents during a run, when one is closed, then it ends soon, even if its peer does not answer. It
// can be enabled again.
func TestCloseDuringRun(t *testing.T) {
	for _, cut := range []bool{false, true} {
		onStage(t, func(t *testing.T, s *stage) {
			con := s.player("console", "10.0.0.1").console(1)
			client := s.player("client", "10.0.0.11").agent(Config{})
			server := s.player("server", "10.0.0.12").agent(Config{})
			for batch, q := range []*message.TestRequest{
				con.test(0), brw(con.test(1), message.BRWRead, 1<<20, message.CheckFull),
				brw(con.test(2), message.BRWWrite, 1<<20, message.CheckFull),
			} {
				q.Concurrency = 4
				con.prepare(client, server, uint64(batch), q)
				con.run(client, uint64(batch))
			}
			time.Sleep(50 * time.Millisecond)
			if cut {
				s.Partition(client.host, server.host, 0)
				time.Sleep(time.Second)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			for _, p := range []*player{client, server} {
				began := time.Now()
				if err := p.Close(ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("cut %t: close took %v", cut, took)
				}
				p.checkEmpty()
				p.agent(Config{})
			}
			s.Heal(client.host, server.host, 0)
			if cut {
				return
			}
			q := con.test(9)
			q.Loop = 3
			con.prepare(client, server, 9, q)
			con.run(client, 9)
			con.idle(client, 9)
		})
	}
}

// Given agents during a run, when the nodes are closed first, then the agents can still be closed.
func TestNodeClosedFirst(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		client := s.player("client", "10.0.0.11").agent(Config{})
		server := s.player("server", "10.0.0.12").agent(Config{})
		con := s.player("console", "10.0.0.1").console(1)
		for batch, q := range []*message.TestRequest{
			con.test(0), brw(con.test(1), message.BRWRead, 1<<20, message.CheckFull),
			brw(con.test(2), message.BRWWrite, 1<<20, message.CheckFull),
		} {
			q.Concurrency = 4
			con.prepare(client, server, uint64(batch), q)
			con.run(client, uint64(batch))
		}
		time.Sleep(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, p := range []*player{server, client} {
			if err := p.node.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*player{server, client} {
			p.close()
		}
	})
}
