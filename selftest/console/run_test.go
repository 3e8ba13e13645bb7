package console

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// moved has the test counters of nodes in a sample: requests sent by clients, requests received by
// servers except those of the console, and bulk.
type moved struct {
	Sent, Received   uint32
	BulkGet, BulkPut uint64
	SessionErrors    uint32
	Errors, Dropped  uint32
}

func sum(v *TargetSample) (m moved) {
	for _, n := range v.Nodes {
		m.Sent += n.RPCs.Sent
		m.Received += n.RPCs.Received
		m.BulkGet += n.RPCs.BulkGet
		m.BulkPut += n.RPCs.BulkPut
		m.SessionErrors += n.Framework.BRWErrors + n.Framework.PingErrors
		m.Errors += n.RPCs.Errors
		m.Dropped += n.RPCs.Dropped
	}
	return m
}

// Given pings and bulks of all directions, checks, sizes and offsets, when they run to the end of their
// loops between two clients and three servers, m:n, then both sides have counted exactly the requested
// RPCs, and no errors.
//
// selftest 3 counters, 5 (1), 7.5 (2), 11 (2)
func TestCountsAddUp(t *testing.T) {
	const loop = 2
	type shape struct{ dist, span, concurrency int }
	shapes := []shape{{1, 1, 1}, {1, 2, 2}, {2, 3, 3}}
	var tests []Test
	tests = append(tests, pingTest())
	for _, write := range []bool{false, true} {
		for _, check := range []string{"none", "simple", "full", "discard"} {
			for _, size := range []int{8, 4096, 65536, 1 << 20} {
				tests = append(tests, Test{Kind: BulkTest, BRW: BRW{Write: write, Check: check, Size: size}})
			}
		}
	}
	tests = append(tests,
		Test{Kind: BulkTest, BRW: BRW{Check: "full", Size: 4088, Offset: 8}},
		Test{Kind: BulkTest, BRW: BRW{Check: "full", Size: 4096, Offset: 4096}, Concurrency: 3},
		Test{Kind: BulkTest, BRW: BRW{Write: true, Check: "simple", Size: 1<<20 - 8, Offset: 8}})
	for k, v := range tests {
		if testenv.Race && k%5 != 0 {
			continue // the others run the same goroutines
		}
		shape := shapes[k%len(shapes)]
		name := fmt.Sprintf("%s %d:%d x%d %+v", v.Kind, shape.dist, shape.span, shape.concurrency, v.BRW)
		t.Run(name, func(t *testing.T) {
			onStage(t, 5, func(t *testing.T, s *stage) {
				s.session([2]string{"c", "1-2"}, [2]string{"s", "3-5"})
				q := pingTest()
				q.Kind, q.BRW, q.Loop = v.Kind, v.BRW, loop
				q.Distribute, q.Span, q.Concurrency = shape.dist, shape.span, shape.concurrency
				s.add(q)
				before := s.stat("c", "s")
				s.run("batch")
				s.idle("batch")
				// A batch that has ended can be run again.
				s.run("batch")
				s.idle("batch")
				b, err := s.Batch(key, "batch")
				if err != nil || b.Running || len(b.Tests) != 1 || b.Clients.Count.Active != 2 || b.Servers.Count.Active != 3 {
					t.Errorf("%+v, %v", b, err)
				}
				after := s.stat("c", "s")
				c0, c1, s0, s1 := sum(&before.Targets[0]), sum(&after.Targets[0]), sum(&before.Targets[1]), sum(&after.Targets[1])
				rpcs := uint32(2 * 2 * loop * shape.span * shape.concurrency)
				expected := moved{Sent: rpcs}
				if diff := cmp.Diff(expected, moved{Sent: c1.Sent - c0.Sent, SessionErrors: c1.SessionErrors, Errors: c1.Errors, Dropped: c1.Dropped}); diff != "" {
					t.Errorf("clients: %s", diff)
				}
				// Each server has also received a STAT.
				expected = moved{Received: rpcs + 3}
				if v.Kind == BulkTest && v.BRW.Write {
					expected.BulkGet = uint64(rpcs) * uint64(v.BRW.Size)
				} else {
					expected.BulkPut = uint64(rpcs) * uint64(v.BRW.Size)
				}
				if diff := cmp.Diff(expected, moved{
					Received: s1.Received - s0.Received, BulkGet: s1.BulkGet - s0.BulkGet, BulkPut: s1.BulkPut - s0.BulkPut,
					SessionErrors: s1.SessionErrors, Errors: s1.Errors, Dropped: s1.Dropped,
				}); diff != "" {
					t.Errorf("servers: %s", diff)
				}
				for _, trouble := range after.Troubles(false) {
					if trouble.Total() != 0 {
						t.Errorf("%+v", trouble)
					}
				}
			})
		})
	}
}

// Given batches of several tests on overlapping groups, when they run and are queried, then each test is
// queried by its index on each node.
//
// selftest 4.9 (4), 7.5 (1), 7.6 (1)-(2)
func TestQuery(t *testing.T) {
	onStage(t, 3, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1"}, [2]string{"s", "2"}, [2]string{"all", "1-3"})
		short := pingTest()
		short.Loop = 1
		s.add(short)
		long := pingTest() // only this test is on node 3; 1 and 2 are clients and servers of it
		long.From, long.To = "all", "all"
		s.add(long)
		s.run("batch")
		if r, err := s.Run(s.ctx, key, "batch", 0); err != nil || !r.OK() {
			t.Errorf("run what runs: %+v, %v", r, err)
		}
		time.Sleep(time.Second)
		for name, row := range map[string]struct {
			o                     QueryOptions
			running, idle, active int
		}{
			"batch":                {QueryOptions{}, 3, 0, 3},
			"servers of the batch": {QueryOptions{Servers: true}, 3, 0, 3}, // they are also its clients
			"short test":           {QueryOptions{Test: 1}, 0, 1, 0},
			"long test":            {QueryOptions{Test: 2}, 3, 0, 3},
			"servers of a test":    {QueryOptions{Test: 2, Servers: true}, 0, 3, 0},
		} {
			q, err := s.Query(s.ctx, key, "batch", row.o)
			active := 0
			for _, n := range q.Nodes {
				active += int(n.Active)
			}
			if err != nil || q.Running != row.running || q.Idle != row.idle || q.Failed != 0 || active != row.active {
				t.Errorf("%s: %+v, %v", name, q, err)
			}
		}
		b, err := s.Batch(key, "batch")
		if err != nil || !b.Running || len(b.Tests) != 2 || b.Tests[1].Index != 2 || b.Tests[1].From != "all" ||
			b.Clients.Count.Total != 3 || b.Tests[0].Clients.Count.Total != 1 {
			t.Errorf("%+v, %v", b, err)
		}
		if r, err := s.Stop(s.ctx, key, "batch", false); err != nil || !r.OK() {
			t.Errorf("stop: %+v, %v", r, err)
		}
		s.idle("batch")
		if b, err := s.Batch(key, "batch"); err != nil || b.Running {
			t.Errorf("%+v, %v", b, err)
		}
		s.add(short) // the batch is idle
	})
}

// Given a batch with a time limit, when the time is over, then it is stopped, unless it was stopped and
// run again before.
//
// selftest 7.6 (3)
func TestRunForAWhile(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1"}, [2]string{"s", "2"})
		s.add(pingTest())
		running := func() bool {
			q, err := s.Query(s.ctx, key, "batch", QueryOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return q.Running > 0
		}
		if r, err := s.Run(s.ctx, key, "batch", 3*time.Second); err != nil || !r.OK() {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(2 * time.Second)
		if !running() {
			t.Error("stopped too early")
		}
		time.Sleep(2 * time.Second)
		if running() {
			t.Error("not stopped")
		}
		if r, err := s.Run(s.ctx, key, "batch", 3*time.Second); err != nil || !r.OK() {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := s.Stop(s.ctx, key, "batch", false); err != nil {
			t.Fatal(err)
		}
		s.idle("batch")
		s.run("batch")
		time.Sleep(4 * time.Second)
		if !running() {
			t.Error("stopped by the end of a former run")
		}
		if _, err := s.Run(s.ctx, key, "batch", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
	})
}

// Given a running test, when a server dies, then its client's units end with errors that show_error
// lists, and a stop by force does not wait for the server. When a client dies, the other one is stopped,
// and the session ends without either.
//
// selftest 7.2, 7.3 (3), 7.6 (2), 11 (5)
func TestKilledMidRun(t *testing.T) {
	onStage(t, 4, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1-2"}, [2]string{"s", "3-4"})
		q := pingTest()
		q.Kind, q.BRW, q.Concurrency = BulkTest, BRW{Size: 65536, Check: "full"}, 2
		s.add(q)
		s.run("batch")
		time.Sleep(time.Second)
		s.cut(s.nodes[2])
		time.Sleep(90 * time.Second)

		v, err := s.Stat(s.ctx, key, []string{"c", "s"}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		trouble := v.Troubles(false)
		if len(trouble[0].Nodes) != 1 || trouble[0].Nodes[0].ID.NID != s.nodes[0].nid || trouble[0].Nodes[0].BRWErrors != 2 {
			t.Errorf("clients: %+v", trouble[0])
		}
		if len(trouble[1].Unreachable) != 1 || trouble[1].Unreachable[0].ID.NID != s.nodes[2].nid || trouble[1].Unreachable[0].State != Down {
			t.Errorf("servers: %+v", trouble[1])
		}
		if session := v.Troubles(true); session[0].Total() != 1 || session[0].Nodes[0].Expired+session[0].Nodes[0].Errors != 0 {
			t.Errorf("session's: %+v", session)
		}
		qr, err := s.Query(s.ctx, key, "batch", QueryOptions{})
		if err != nil || qr.Running != 1 || qr.Idle != 1 {
			t.Errorf("%+v, %v", qr, err)
		}
		started := time.Now()
		if r, err := s.Stop(s.ctx, key, "batch", true); err != nil || !r.OK() {
			t.Errorf("stop: %+v, %v", r, err)
		}
		s.idle("batch")
		if took := time.Since(started); took > 2*time.Second {
			t.Errorf("stopped after %v", took)
		}

		// A client dies.
		s.run("batch")
		s.cut(s.nodes[1])
		r, err := s.Ping(s.ctx, key, Target{Batch: "batch"}, 0)
		if err != nil || r.Unanswered != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		started = time.Now()
		r, err = s.Stop(s.ctx, key, "batch", true)
		if err != nil || r.Succeeded != 1 || r.Unanswered != 1 || r.Nodes[1].RPC == 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if b, err := s.Batch(key, "batch"); err != nil || !b.Running {
			t.Errorf("a node that was not told so is stopped: %+v, %v", b, err)
		}
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		if took := time.Since(started); took > 7*time.Second {
			t.Errorf("ended after %v", took)
		}
		s.empty(s.nodes[0], s.nodes[3])
		s.mend(s.nodes[1])
		s.mend(s.nodes[2])
	})
}

// Given a node that does not answer, when it is asked, then it is counted as timed out or, with a limit
// below 6 s, as interrupted (selftest 7.3).
//
// selftest 7.3 (1)-(2)
func TestLimits(t *testing.T) {
	for _, row := range []struct {
		timeout, took time.Duration
		errno         syscall.Errno
	}{
		{time.Second, 3 * time.Second, syscall.EINTR},
		{5 * time.Second, 5 * time.Second, syscall.EINTR},
		{6 * time.Second, 6 * time.Second, syscall.ETIMEDOUT},
		{0, 30 * time.Second, syscall.ETIMEDOUT},
		{time.Hour, 30 * time.Second, syscall.ETIMEDOUT},
	} {
		t.Run(row.timeout.String(), func(t *testing.T) {
			onStage(t, 2, func(t *testing.T, s *stage) {
				s.session([2]string{"g", "1-2"})
				s.cut(s.nodes[0])
				started := time.Now()
				r, err := s.Ping(s.ctx, key, Target{Group: "g"}, row.timeout)
				took := time.Since(started)
				if err != nil || r.Succeeded != 1 || r.RPCErrno != row.errno || r.Nodes[0].State != Down {
					t.Errorf("%+v, %v", r, err)
				}
				if took < row.took-time.Second || took > row.took+time.Second {
					t.Errorf("took %v, want %v", took, row.took)
				}
				s.mend(s.nodes[0])
			})
		})
	}
}
