package console

import (
	"math"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given a session, when invalid tests are added, including those that could crash a kernel, then they are
// refused with the right errno, and no node receives them.
//
// selftest 5 (5), 7.1, 7.5 (1), 7.5 (3), 7.6 (1)
func TestAddTestRefuses(t *testing.T) {
	onStage(t, 4, func(t *testing.T, s *stage) {
		s.slow()
		_, err := s.AddTest(s.ctx, key, pingTest())
		want(t, "no session", err, syscall.ESRCH, "session")
		s.session([2]string{"c", "1"}, [2]string{"s", "2"}, [2]string{"half", "2-3"}, [2]string{"dead", "4"})
		for _, name := range []string{"idle", "running"} {
			if err := s.AddBatch(key, name); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "batch twice", s.AddBatch(key, "idle"), syscall.EEXIST, "batch")
		want(t, "first batch", s.AddBatch(key, "batch"), syscall.EEXIST, "batch")
		want(t, "batch without a name", s.AddBatch(key, ""), syscall.EINVAL, "batch")
		running := pingTest()
		running.Batch = "running"
		s.add(running)
		s.run("running")
		for _, k := range []int{2, 3} {
			s.cut(s.nodes[k])
		}
		if r, err := s.Ping(s.ctx, key, Target{Session: true}, 0); err != nil || r.Unanswered != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		bulk := func(size, offset int, check string) func(q *Test) {
			return func(q *Test) { q.Kind, q.BRW = BulkTest, BRW{Size: size, Offset: offset, Check: check} }
		}
		for name, row := range map[string]struct {
			change func(q *Test)
			errno  syscall.Errno
			thing  string
		}{
			"kind":               {func(q *Test) { q.Kind = "foo" }, syscall.EINVAL, "test"},
			"loop":               {func(q *Test) { q.Loop = 0 }, syscall.EINVAL, "test"},
			"no concurrency":     {func(q *Test) { q.Concurrency = 0 }, syscall.EINVAL, "test"},
			"concurrency":        {func(q *Test) { q.Concurrency = 1025 }, syscall.EINVAL, "test"},
			"no distribution":    {func(q *Test) { q.Distribute = 0 }, syscall.EINVAL, "test"},
			"no span":            {func(q *Test) { q.Span = 0 }, syscall.EINVAL, "test"},
			"span of the group":  {func(q *Test) { q.Span = 2 }, syscall.EINVAL, "test"},
			"span of the list":   {func(q *Test) { q.Span = 342 }, syscall.EINVAL, "test"},
			"no batch":           {func(q *Test) { q.Batch = "x" }, syscall.ENOENT, "batch"},
			"batch runs":         {func(q *Test) { q.Batch = "running" }, syscall.EBUSY, "batch"},
			"no clients":         {func(q *Test) { q.From = "x" }, syscall.ENOENT, "group"},
			"no servers":         {func(q *Test) { q.To = "x" }, syscall.ENOENT, "group"},
			"a server down":      {func(q *Test) { q.To = "half" }, syscall.ENETDOWN, "group"},
			"a client down":      {func(q *Test) { q.From = "half" }, syscall.ENETDOWN, "group"},
			"all servers down":   {func(q *Test) { q.To = "dead" }, syscall.EINVAL, "group"},
			"all clients down":   {func(q *Test) { q.From = "dead" }, syscall.EINVAL, "group"},
			"empty bulk":         {bulk(0, 0, ""), syscall.EINVAL, "test"},
			"bulk of 1":          {bulk(1, 0, ""), syscall.EINVAL, "test"},
			"bulk of 4":          {bulk(4, 0, "full"), syscall.EINVAL, "test"},
			"bulk of 4100":       {bulk(4100, 0, ""), syscall.EINVAL, "test"},
			"bulk over 1 MiB":    {bulk(1<<20+8, 0, ""), syscall.EINVAL, "test"},
			"negative bulk":      {bulk(-8, 0, ""), syscall.EINVAL, "test"},
			"offset of 4":        {bulk(4088, 4, ""), syscall.EINVAL, "test"},
			"negative offset":    {bulk(4096, -8, ""), syscall.EINVAL, "test"},
			"huge offset":        {bulk(4096, math.MaxInt32+1, ""), syscall.EINVAL, "test"},
			"one page too many":  {bulk(4096, 8, ""), syscall.EINVAL, "test"},
			"257 pages":          {bulk(1<<20, 8, ""), syscall.EINVAL, "test"},
			"no such check":      {bulk(4096, 0, "some"), syscall.EINVAL, "test"},
			"page in mid offset": {bulk(8192, 4096+8, ""), syscall.EINVAL, "test"},
		} {
			q := pingTest()
			q.Batch = "idle"
			row.change(&q)
			_, err := s.AddTest(s.ctx, key, q)
			want(t, name, err, row.errno, row.thing)
		}
		b, err := s.Batch(key, "idle")
		if err != nil || len(b.Tests) != 0 || b.Clients.Count.Total != 0 {
			t.Errorf("%+v, %v", b, err)
		}
		if i, _ := s.nodes[1].agent.Session(); len(i.Batches) != 1 {
			t.Errorf("%+v", i.Batches)
		}
		if g, err := s.Group(key, "half"); err != nil || g.InUse {
			t.Errorf("%+v, %v", g, err)
		}

		// Groups in use do not change.
		_, err = s.DeleteGroup(s.ctx, key, "c")
		want(t, "delete", err, syscall.EBUSY, "group")
		_, err = s.RefreshGroup(s.ctx, key, "s")
		want(t, "refresh", err, syscall.EBUSY, "group")
		_, err = s.CleanGroup(s.ctx, key, "c", Active)
		want(t, "clean", err, syscall.EBUSY, "group")
		_, err = s.RemoveFromGroup(s.ctx, key, "s", []string{ids("2")})
		want(t, "remove", err, syscall.EBUSY, "group")

		// Batches that do not exist or have no tests.
		_, err = s.Run(s.ctx, key, "x", 0)
		want(t, "run", err, syscall.ENOENT, "batch")
		if r, err := s.Run(s.ctx, key, "idle", 0); err != nil || !r.OK() || len(r.Nodes) > 0 {
			t.Errorf("run nothing: %+v, %v", r, err)
		}
		_, err = s.Run(s.ctx, key, "running", -1)
		want(t, "run for less than nothing", err, syscall.EINVAL, "batch")
		_, err = s.Stop(s.ctx, key, "x", false)
		want(t, "stop", err, syscall.ENOENT, "batch")
		_, err = s.Query(s.ctx, key, "x", QueryOptions{})
		want(t, "query", err, syscall.ENOENT, "batch")
		_, err = s.Query(s.ctx, key, "running", QueryOptions{Test: 2})
		want(t, "query a test", err, syscall.ENOENT, "test")
		_, err = s.Batch(key, "x")
		want(t, "batch", err, syscall.ENOENT, "batch")
		if list, err := s.Batches(key); err != nil || !cmp.Equal(list, []string{"batch", "idle", "running"}) {
			t.Errorf("%v, %v", list, err)
		}

		// A client that has gone down meanwhile.
		s.cut(s.nodes[0])
		if r, err := s.Query(s.ctx, key, "running", QueryOptions{Timeout: 1}); err != nil || r.Failed != 1 || r.RPCErrno != syscall.EINTR {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = s.Run(s.ctx, key, "running", 0)
		want(t, "run on a dead node", err, syscall.ENETDOWN, "batch")
		for _, k := range []int{0, 2, 3} {
			s.mend(s.nodes[k])
		}
	})
}

// Given a group with more servers than fit into a block of destinations, when a client is to have them
// all, then the test is refused.
//
// selftest 2.3.3 (2)
func TestSpanFitsIntoABlock(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		s.session([2]string{"c", "1"})
		const servers = message.DestinationsPerBlock + 1
		for k := range uint32(servers) {
			from := lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, 0x0a000100+k), PID: lnet.PIDLustre}
			r := s.join(from, &message.JoinRequest{Header: message.NewHeader(1), Session: message.NoSession, Group: message.NameOf("s")})
			if r.Status != message.OK {
				t.Fatalf("server %d: %v", k, r.Status)
			}
		}
		q := pingTest()
		q.Span = servers
		_, err := s.AddTest(s.ctx, key, q)
		want(t, "span", err, syscall.EINVAL, "test")
	})
}
