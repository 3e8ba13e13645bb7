package selftest

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
	"github.com/lnetd/lnetd/selftest/rpc"
)

// Given a node, when sessions are made, then each row of selftest 4.4 has the specified answer.
//
// selftest 4, 4.3 (3), 4.4 (1)-(5)
func TestMakeSession(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.player("console", "10.0.0.1")
		node := s.player("node", "10.0.0.2").agent(Config{SessionTimeout: 77 * time.Second})
		ours, theirs := p.console(1), p.console(1)
		theirs.id.Stamp = 2
		theirs.client = ours.client
		nobody := *ours
		nobody.id.NID = message.AnyNID4
		one := message.NewHeader(1)
		name := message.NameOf("session 1")

		check := func(what string, got, want message.MakeSessionReply) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		check("no NID, no session", nobody.make(node, true),
			message.MakeSessionReply{Header: one, Status: message.EINVAL, Session: message.NoSession})
		strange := *ours
		strange.features = 3
		check("unknown features, no session", strange.make(node, false),
			message.MakeSessionReply{Header: one, Status: message.EPROTO, Session: message.NoSession})
		check("new", ours.make(node, false), message.MakeSessionReply{Header: one, Session: ours.id, Timeout: 77})
		check("again", ours.make(node, false), message.MakeSessionReply{Header: one, Session: ours.id, Timeout: 77})
		check("the same with unknown features", strange.make(node, false),
			message.MakeSessionReply{Header: one, Session: ours.id, Timeout: 77})
		check("no NID", nobody.make(node, true), message.MakeSessionReply{Header: one, Status: message.EINVAL, Session: ours.id})
		busy := message.MakeSessionReply{Header: one, Status: message.EBUSY, Session: ours.id, Timeout: 77, Name: name}
		check("another", theirs.make(node, false), busy)
		strange = *theirs
		strange.features = 3
		check("another with unknown features", strange.make(node, false), busy)
		check("another with unknown features, by force", strange.make(node, true),
			message.MakeSessionReply{Header: one, Status: message.EPROTO, Session: ours.id})
		if i, ok := node.Session(); !ok || i.ID != ours.id || i.References != 3 || i.Name != "session 1" {
			t.Errorf("%+v", i)
		}
		theirs.features = 0
		check("another by force, without features", theirs.make(node, true),
			message.MakeSessionReply{Header: message.NewHeader(0), Session: theirs.id, Timeout: 77})
		if i, ok := node.Session(); !ok || i.ID != theirs.id || i.References != 1 || i.Features != 0 {
			t.Errorf("%+v", i)
		}
	})
}

// Given a session with two references, when it is removed, then each row of selftest 4.5 has the
// specified answer.
//
// selftest 4.5 (1)-(5)
func TestRemoveSession(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		node := s.player("node", "10.0.0.2").agent(Config{})
		ours := s.player("console", "10.0.0.1").console(1)
		theirs, nobody := *ours, *ours
		theirs.id.Stamp = 2
		nobody.id.NID = message.AnyNID4
		for k, step := range []struct {
			by     *console
			makes  bool
			status message.Status
			id     message.SessionID
		}{
			{&nobody, false, message.EINVAL, message.NoSession},
			{ours, false, message.ESRCH, message.NoSession},
			{ours, true, message.OK, ours.id},
			{ours, true, message.OK, ours.id},
			{&nobody, false, message.EINVAL, ours.id},
			{&theirs, false, message.EBUSY, ours.id},
			{ours, false, message.OK, ours.id},
			{ours, false, message.OK, message.NoSession},
			{ours, false, message.ESRCH, message.NoSession},
		} {
			var status message.Status
			var id message.SessionID
			if step.makes {
				r := step.by.make(node, false)
				status, id = r.Status, r.Session
			} else {
				r := step.by.remove(node)
				status, id = r.Status, r.Session
			}
			if status != step.status || id != step.id {
				t.Errorf("step %d: %v, %v; want %v, %v", k, status, id, step.status, step.id)
			}
		}
	})
}

// Given a node with and without a session, when it is queried, then the answers match selftest 4.3, 4.6
// and 4.7.
//
// selftest 4.3 (1)-(3), 4.6, 4.7 (1)-(3)
func TestDebugAndStat(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		node := s.player("node", "10.0.0.2").agent(Config{})
		ours := s.player("console", "10.0.0.1").console(1)
		theirs, nobody, strange, plain := *ours, *ours, *ours, *ours
		theirs.id.Stamp, nobody.id.NID, strange.features, plain.features = 2, message.AnyNID4, 2, 0

		if r := ours.debug(node); r.Status != message.ESRCH || r.Session != message.NoSession {
			t.Errorf("debug without a session: %+v", r)
		}
		if r := ours.stat(node); r.Status != message.ESRCH || r.Session != message.NoSession {
			t.Errorf("stat without a session: %+v", r)
		}
		ours.make(node, false)
		want := message.DebugReply{
			Header: message.NewHeader(1), Session: ours.id, Timeout: 100, Name: message.NameOf("session 1"),
		}
		for _, c := range []*console{ours, &theirs, &nobody, &plain} {
			if diff := cmp.Diff(want, c.debug(node)); diff != "" {
				t.Error(diff)
			}
		}
		if r := strange.debug(node); r.Status != message.EPROTO || r.Session != ours.id {
			t.Errorf("debug with unknown features: %+v", r)
		}
		time.Sleep(1500 * time.Millisecond)
		r := ours.stat(node)
		if r.Status != message.OK || r.Session != ours.id || r.Framework.RunningMS < 1500 || r.Framework.RunningMS > 1510 ||
			r.RPC.Received != 9 || r.LNet.SendCount == 0 || r.LNet.ReceiveLength < 9*message.Size {
			t.Errorf("stat: %+v", r)
		}
		for c, want := range map[*console]message.Status{
			&theirs: message.ESRCH, &nobody: message.EINVAL, &strange: message.EPROTO, &plain: message.EPROTO,
		} {
			if r := c.stat(node); r.Status != want || r.Session != ours.id {
				t.Errorf("stat by %+v: %v, %v; want %v", c.id, r.Status, r.Session, want)
			}
		}
		if r := plain.remove(node); r.Status != message.EPROTO || r.Session != ours.id {
			t.Errorf("remove with other features: %+v", r)
		}
		if r := plain.batch(node, 1, message.BatchRun, 0, 0); r.Status != message.EPROTO || r.Session != ours.id {
			t.Errorf("run with other features: %+v", r)
		}
		if status := plain.add(node, plain.test(1)); status != message.EPROTO {
			t.Errorf("test with other features: %v", status)
		}
	})
}

// Given a session with a running batch, when the console keeps it alive, then it continues. When the
// console stops, the session ends with its units after the timeout, although they are busy.
//
// selftest 4.1, 4.2, 11 (4)
func TestExpiry(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		con := s.player("console", "10.0.0.1").console(1)
		client := s.player("client", "10.0.0.2").agent(Config{SessionTimeout: 10 * time.Second})
		server := s.player("server", "10.0.0.3").agent(Config{SessionTimeout: -1})
		slow(s)
		con.prepare(client, server, 1, con.test(1))
		con.run(client, 1)
		for range 4 {
			time.Sleep(8 * time.Second)
			if r := con.debug(client); r.Status != message.OK {
				t.Fatalf("debug: %v", r.Status)
			}
		}
		time.Sleep(9 * time.Second)
		if _, ok := client.Session(); !ok {
			t.Error("expired too early")
		}
		time.Sleep(2 * time.Second)
		if i, ok := client.Session(); ok {
			t.Errorf("not expired: %+v", i)
		}
		if n := client.zombies.Load(); n != 0 {
			t.Errorf("%d zombies", n)
		}
		before := client.Counters().Sent
		time.Sleep(time.Hour)
		if after := client.Counters().Sent; after != before {
			t.Errorf("%d RPCs after the end", after-before)
		}
		if _, ok := server.Session(); !ok {
			t.Error("a session without a timeout has expired")
		}
	})
}

// Given a session whose units have RPCs without answers under way, when it is taken over by force, then
// the new session starts at once. The RPCs of the old one end on both sides as soon as none of their
// messages is in transit.
//
// selftest 4, 4.2, 4.4 (5), 11 (4)
func TestForceDuringRun(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		p := s.player("console", "10.0.0.1")
		con := p.console(1)
		client := s.player("client", "10.0.0.2").agent(Config{})
		server := s.player("server", "10.0.0.3").agent(Config{})
		q := brw(con.test(1), message.BRWWrite, 1<<20, message.CheckFull)
		q.Concurrency = 4
		con.prepare(client, server, 1, q)
		con.run(client, 1)
		time.Sleep(20 * time.Millisecond)
		s.Partition(client.host, server.host, 0)
		time.Sleep(time.Second)
		if r := con.stat(client); r.Framework.ActiveBatches != 1 {
			t.Errorf("%+v", r.Framework)
		}
		other := *con
		other.id.Stamp = 2
		for _, node := range []*player{client, server} {
			if r := other.make(node, true); r.Status != message.OK || r.Session != other.id {
				t.Errorf("by force: %+v", r)
			}
		}
		if r := con.remove(client); r.Status != message.EBUSY || r.Session != other.id {
			t.Errorf("the former session: %+v", r)
		}
		// Messages in transit cannot be canceled.
		s.Heal(client.host, server.host, 0)
		time.Sleep(time.Second)
		if r := other.stat(client); r.Framework.ZombieSessions != 0 || r.Framework.ActiveBatches != 0 || r.Framework.BRWErrors != 0 {
			t.Errorf("%+v", r.Framework)
		}
		if n, _ := server.load(); n != 0 {
			t.Errorf("%d RPCs still served", n)
		}
		// The new session can run a batch.
		q.Session, q.Batch, q.Loop = other.id, 7, 2
		for k, status := range []message.Status{other.add(server, q), other.add(client, q, server)} {
			if status != message.OK {
				t.Fatalf("add test to %d: %v", k, status)
			}
		}
		other.run(client, 7)
		other.idle(client, 7)
		if r := other.stat(client); r.Framework.BRWErrors != 0 {
			t.Errorf("%+v", r.Framework)
		}
	})
}

// Given a console that takes a node's session over a thousand times, then the log does not have a line
// for each.
func TestSessionsDoNotFillTheLog(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		var log bytes.Buffer
		node := s.player("node", "10.0.0.3").agent(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		con := s.player("console", "10.0.0.1").console(1)
		began := time.Now()
		for range 1000 {
			con.id.Stamp++
			con.make(node, true)
		}
		most := 2 * (1 + int(time.Since(began)/time.Minute)) // made and ended
		if n := bytes.Count(log.Bytes(), []byte("\n")); n == 0 || n > most {
			t.Errorf("%d lines, want 1 to %d", n, most)
		}
	})
}

// slow gives every message a latency of 10 ms.
func slow(s *stage) {
	slots := []string{"console", "client", "server"}
	for _, a := range slots {
		for _, b := range slots {
			if a != b {
				s.SetLink(s.Host(a), s.Host(b), 0, latencyOf(10*time.Millisecond))
			}
		}
	}
}

// Given a handler for JOIN requests, when a process asks to join, then it receives the handler's answer.
// A node without a handler does not answer.
//
// selftest 4.11
func TestJoin(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		node := s.player("node", "10.0.0.2").agent(Config{})
		ours := s.player("console", "10.0.0.1").console(1)
		q := &message.JoinRequest{Header: ours.header(), Session: message.NoSession, Group: message.NameOf("g")}
		var r message.JoinReply
		if err := ours.try(node, q, &r); !errors.Is(err, rpc.ErrTimedOut) {
			t.Errorf("answered: %+v, %v", r, err)
		}
		var from lnet.ProcessID
		node.SetJoin(func(f lnet.ProcessID, q *message.JoinRequest) message.JoinReply {
			from = f
			return message.JoinReply{Session: message.SessionID{NID: 5, Stamp: 6}, Timeout: 300, Name: q.Group}
		})
		ours.call(node, q, &r)
		want := message.JoinReply{
			Header: message.NewHeader(1), Session: message.SessionID{NID: 5, Stamp: 6}, Timeout: 300, Name: message.NameOf("g"),
		}
		if diff := cmp.Diff(want, r); diff != "" || from.NID.String() != "10.0.0.1@tcp" {
			t.Errorf("from %v: %s", from, diff)
		}
		node.SetJoin(nil)
		if err := ours.try(node, q, &r); !errors.Is(err, rpc.ErrTimedOut) {
			t.Errorf("answered: %+v, %v", r, err)
		}
	})
}
