package selftest

import (
	"context"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a session, when tests are added, then each row of selftest 4.8 has the specified answer.
// Parameters that would crash a kernel are refused.
//
// selftest 4.8 (1)-(2), 4.8 (4)-(6), 5 (5)
func TestAddTest(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.1").console(1)
		node := s.player("node", "10.0.0.2").agent(Config{MaxUnits: 4000})
		if status := con.add(node, con.test(1), node); status != message.ENOENT {
			t.Errorf("without a session: %v", status)
		}
		con.make(node, false)
		bulk := func(op, length uint32, check message.Check, offset uint32) func(q *message.TestRequest) {
			return func(q *message.TestRequest) {
				brw(q, op, length, check)
				q.BRW.Offset = offset
			}
		}
		const read, full = message.BRWRead, message.CheckFull
		for name, test := range map[string]struct {
			change func(q *message.TestRequest)
			server bool
			want   message.Status
		}{
			"ping client":         {func(*message.TestRequest) {}, false, message.OK},
			"ping server":         {func(*message.TestRequest) {}, true, message.OK},
			"no loop":             {func(q *message.TestRequest) { q.Loop = 0 }, true, message.EINVAL},
			"no concurrency":      {func(q *message.TestRequest) { q.Concurrency = 0 }, true, message.EINVAL},
			"concurrency":         {func(q *message.TestRequest) { q.Concurrency = 1024 }, false, message.OK},
			"too much of it":      {func(q *message.TestRequest) { q.Concurrency = 1025 }, true, message.EINVAL},
			"nobody":              {func(q *message.TestRequest) { q.Session.NID = message.AnyNID4 }, true, message.EINVAL},
			"another session":     {func(q *message.TestRequest) { q.Session.Stamp++ }, true, message.ENOENT},
			"service 10":          {func(q *message.TestRequest) { q.Tests = 10 }, true, message.EINVAL},
			"service 13":          {func(q *message.TestRequest) { q.Tests = 13 }, true, message.EINVAL},
			"read":                {bulk(read, 4096, full, 0), false, message.OK},
			"read of the longest": {bulk(read, 1<<20, full, 0), false, message.OK},
			"offset that fits":    {bulk(read, 4088, full, 8), false, message.OK},
			"offset of pages":     {bulk(read, 4096, full, 8192), false, message.OK},
			"offset 4":            {bulk(read, 4088, full, 4), false, message.EINVAL},
			"offset too large":    {bulk(read, 4096, full, 8), false, message.EINVAL},
			"too long":            {bulk(read, 1<<20+8, full, 0), false, message.EINVAL},
			"empty":               {bulk(read, 0, full, 0), false, message.EINVAL},
			"odd":                 {bulk(read, 4, full, 0), false, message.EINVAL},
			"odd, unchecked":      {bulk(read, 4097, message.CheckNone, 0), false, message.EINVAL},
			"op 0":                {bulk(0, 4096, full, 0), false, message.EINVAL},
			"op 3":                {bulk(3, 4096, full, 0), false, message.EINVAL},
			"check 0":             {bulk(read, 4096, 0, 0), false, message.EINVAL},
			"check 5":             {bulk(read, 4096, 5, 0), false, message.EINVAL},
			"server of nonsense":  {bulk(7, 3, 9, 1), true, message.OK},
			"too many units": {func(q *message.TestRequest) {
				q.Concurrency, q.Batch = 1024, 2
			}, false, message.OK},
		} {
			q := con.test(1)
			test.change(q)
			var servers []*player
			if !test.server {
				servers = append(servers, node)
			}
			if got := con.add(node, q, servers...); got != test.want {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
		q := con.test(3)
		q.Concurrency = 1024
		if got := con.add(node, q, node, node); got != message.ENOMEM {
			t.Errorf("more units than are allowed: %v", got)
		}
	})
}

// Given invalid lists of destinations, when a client test is added, then it is refused. If the list
// cannot be fetched, there is no answer.
//
// selftest 2.3.3 (1), 3 server (2), 4.8 (1), 4.8 (4)
func TestDestinations(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.1").console(1)
		node := s.player("node", "10.0.0.2").agent(Config{RPCTimeout: 5 * time.Second})
		con.make(node, false)
		good := destinations(t, node)[0]
		add := func(count uint32, list ...message.Destination) (message.Status, error) {
			q := con.test(1)
			q.Destinations = count
			var r message.TestReply
			err := con.try(node, q, &r, message.AppendDestinations(nil, list, message.LittleEndian)...)
			return r.Status, err
		}
		for name, d := range map[string]message.Destination{
			"any NID": {NID: message.AnyNID4, PID: lnet.PIDLustre}, "no NID": {PID: lnet.PIDLustre},
			"no PID": {NID: good.NID}, "any PID": {NID: good.NID, PID: lnet.PIDAny},
		} {
			if status, err := add(2, good, d); status != message.EINVAL || err != nil {
				t.Errorf("%s: %v, %v", name, status, err)
			}
		}
		for _, n := range []uint32{0, message.MaxDestinations + 1, ^uint32(0)} {
			if status, err := add(n, good); status != message.EINVAL || err != nil {
				t.Errorf("%d destinations: %v, %v", n, status, err)
			}
		}
		if status, err := add(2, good); status != message.EINVAL || err != nil {
			t.Errorf("a list too short: %v, %v", status, err)
		}
		if _, err := add(1); err == nil { // the bulk ID has no buffer
			t.Error("without a list: answered")
		}
		list := make([]message.Destination, message.DestinationsPerBlock)
		for k := range list {
			list[k] = good
		}
		if status, err := add(uint32(len(list)), list...); status != message.OK || err != nil {
			t.Errorf("a block of destinations: %v, %v", status, err)
		}
		if i, _ := node.Session(); len(i.Batches) != 1 || i.Batches[0].Tests[0].Units != len(list) {
			t.Errorf("%+v", i)
		}
	})
}

// Given a batch with two tests on the client and one on the server, when it is run, queried and stopped,
// then all steps match selftest 4.9.
//
// selftest 4.7 (3), 4.8 (3), 4.8 index, 4.9 (1)-(4), 4.10 (1)-(2)
func TestBatch(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.1").console(1)
		client := s.player("client", "10.0.0.2").agent(Config{})
		server := s.player("server", "10.0.0.3").agent(Config{})
		slow(s)
		q := con.test(5)
		q.Concurrency = 3
		con.prepare(client, server, 5, q)
		q.Loop = 2
		if status := con.add(client, q, server, server); status != message.OK {
			t.Fatal(status)
		}
		expect := func(to *player, batch uint64, op message.BatchOp, test, arg uint32, status message.Status, active uint32) {
			t.Helper()
			r := con.batch(to, batch, op, test, arg)
			if r.Status != status || r.Active != active || r.Session != con.id {
				t.Errorf("%v: %v, active %d; want %v, %d", op, r.Status, r.Active, status, active)
			}
		}
		const query = message.BatchQuery
		expect(client, 6, query, 0, 0, message.ENOENT, 0)
		expect(client, 6, message.BatchRun, 0, 0, message.ENOENT, 0)
		expect(client, 5, query, 0, 0, message.OK, 0)
		expect(client, 5, query, 3, 0, message.ENOENT, 0)
		expect(client, 5, query, 1<<31, 0, message.ENOENT, 0)
		expect(client, 5, message.BatchStop, 0, 0, message.OK, 0)
		expect(server, 5, message.BatchRun, 0, 0, message.OK, 0)
		expect(server, 5, query, 0, 0, message.OK, 0)
		expect(server, 5, query, 1, 0, message.OK, 0)
		var r message.BatchReply
		if err := con.try(client, &message.BatchRequest{Header: con.header(), Session: con.id, Batch: 5, Op: 4}, &r); err == nil {
			t.Errorf("operation 4: answered, %+v", r)
		}
		other := *con
		other.id.Stamp++
		if r := other.batch(client, 5, message.BatchRun, 0, 0); r.Status != message.ESRCH || r.Session != con.id {
			t.Errorf("another session: %+v", r)
		}

		con.run(client, 5)
		expect(client, 5, query, 0, 0, message.OK, 2)
		expect(client, 5, query, 1, 0, message.OK, 3)
		expect(client, 5, query, 2, 0, message.OK, 6)
		con.run(client, 5)
		expect(client, 5, query, 1, 0, message.OK, 3)
		if status := con.add(client, con.test(5), server); status != message.EBUSY {
			t.Errorf("add to a running batch: %v", status)
		}
		if r := con.stat(client); r.Framework.ActiveBatches != 1 {
			t.Errorf("%+v", r.Framework)
		}
		time.Sleep(time.Second)
		expect(client, 5, query, 0, 0, message.OK, 1) // two loops have ended
		expect(client, 5, query, 2, 0, message.OK, 0)
		expect(client, 5, message.BatchStop, 0, 0, message.OK, 0)
		con.idle(client, 5)
		// No RPC was aborted: each request has been answered.
		first, _ := client.Latency(5, 1)
		second, _ := client.Latency(5, 2)
		if sent := client.Counters().Sent; uint64(sent) != first.Count()+second.Count() {
			t.Errorf("%d RPCs sent, %d and %d answered", sent, first.Count(), second.Count())
		}
		con.run(client, 5) // a second run
		expect(client, 5, query, 2, 0, message.OK, 6)
		expect(client, 5, message.BatchStop, 0, 1, message.OK, 0)
		con.idle(client, 5)
		if r := con.stat(client); r.Framework.PingErrors != 0 || r.Framework.ActiveBatches != 0 {
			t.Errorf("%+v", r.Framework)
		}
	})
}

// Given units whose server is gone, when the batch is stopped by force, then they end immediately without an
// error. When it is stopped without force, they end with an error after the RPC timeout.
//
// selftest 3 client (4), 4.9 (3), 4.10 (2), 6 (2)
func TestStopWithoutAnswers(t *testing.T) {
	for _, force := range []bool{true, false} {
		onStage(t, func(t *testing.T, s *stage) {
			con := s.player("console", "10.0.0.1").console(1)
			client := s.player("client", "10.0.0.2").agent(Config{})
			server := s.player("server", "10.0.0.3").agent(Config{})
			q := con.test(1)
			q.Concurrency = 8
			con.prepare(client, server, 1, q)
			con.run(client, 1)
			time.Sleep(100 * time.Millisecond)
			s.Partition(client.host, server.host, 0)
			time.Sleep(time.Second)
			if force {
				con.batch(client, 1, message.BatchStop, 0, 1)
				time.Sleep(time.Second)
			}
			r := con.batch(client, 1, message.BatchQuery, 1, 0)
			if force != (r.Active == 0) {
				t.Errorf("force %t: %d units active", force, r.Active)
			}
			for range 12 {
				time.Sleep(10 * time.Second)
				con.debug(client)
			}
			r = con.batch(client, 1, message.BatchQuery, 1, 0)
			c := con.stat(client)
			want := uint32(8)
			if force {
				want = 0
			}
			if r.Active != 0 || c.Framework.PingErrors != want {
				t.Errorf("force %t: %d active, %+v, %+v", force, r.Active, c.Framework, c.RPC)
			}
		})
	}
}

// Given a server that crashes and one that no longer serves tests, when units continue, then each ends
// with an error. A unit that does not stop on errors continues, but slowly.
//
// selftest 4.10 (3), 5 (4), 11 (5)
func TestServerDies(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.1").console(1)
		client := s.player("client", "10.0.0.2").agent(Config{RPCTimeout: 10 * time.Second})
		server := s.player("server", "10.0.0.3").agent(Config{})
		q := brw(con.test(1), message.BRWRead, 65536, message.CheckFull)
		q.Concurrency = 4
		con.prepare(client, server, 1, q)
		q = con.test(1)
		q.StopOnError = false
		if status := con.add(client, q, server); status != message.OK {
			t.Fatal(status)
		}
		con.run(client, 1)
		time.Sleep(100 * time.Millisecond)
		server.host.Crash()
		server.close()
		for range 6 {
			time.Sleep(20 * time.Second)
			con.debug(client)
		}
		r := con.stat(client)
		if r.Framework.BRWErrors != 4 || r.Framework.PingErrors < 2 || r.Framework.PingErrors > 1200 {
			t.Errorf("%+v, %+v", r.Framework, r.RPC)
		}
		if r := con.batch(client, 1, message.BatchQuery, 0, 0); r.Active != 1 {
			t.Errorf("%d tests active", r.Active)
		}
		con.remove(client)
		time.Sleep(time.Second)
		if z := client.zombies.Load(); z != 0 {
			t.Errorf("%d zombies", z)
		}
	})
}

// Given a session whose batch is being started, when it expires, is taken over, or its agent is closed at
// the same time, then nothing of it is left.
func TestEndDuringStart(t *testing.T) {
	for name, end := range map[string]func(client *player, con *console){
		"expires": func(client *player, _ *console) {
			time.Sleep(client.config.SessionTimeout + time.Millisecond)
			if _, ok := client.Session(); ok {
				client.t.Error("not expired")
			}
		},
		"is stolen": func(client *player, con *console) {
			con.id.Stamp++
			con.make(client, true)
		},
		"agent is closed": func(client *player, _ *console) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := client.Close(ctx); err != nil {
				client.t.Error(err)
			}
		},
	} {
		for kind, change := range map[string]func(q *message.TestRequest){
			"ping":  func(*message.TestRequest) {},
			"write": func(q *message.TestRequest) { brw(q, message.BRWWrite, 1<<16, message.CheckFull) },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				onStage(t, func(t *testing.T, s *stage) {
					client := s.player("client", "10.0.0.11").agent(Config{SessionTimeout: time.Second})
					server := s.player("server", "10.0.0.12").agent(Config{})
					con := s.player("console", "10.0.0.1").console(1)
					q := con.test(1)
					change(q)
					q.Concurrency = 200
					s.SetLink(client.host, server.host, 0, latencyOf(20*time.Millisecond))
					con.prepare(client, server, 1, q)
					con.run(client, 1)
					end(client, con)
					time.Sleep(2 * time.Minute) // messages in transit cannot be canceled
					if z, u := client.zombies.Load(), client.units.Load(); z != 0 || u != 0 {
						t.Errorf("%d zombies, %d units", z, u)
					}
				})
			})
		}
	}
}
