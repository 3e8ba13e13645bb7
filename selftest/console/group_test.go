package console

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/selftest/message"
)

// Given valid and invalid lists of NIDs, when they are added as groups, then each list has its own
// result, nodes are shared, and a group without active nodes is deleted.
//
// selftest 2.2 large, 7.1, 7.3 (4), 7.4 (1)
func TestAddGroup(t *testing.T) {
	onStage(t, 4, func(t *testing.T, s *stage) {
		s.session()
		for name, row := range map[string]struct {
			group string
			lists []string
			errno syscall.Errno
		}{
			"no name":  {"", []string{ids("1")}, syscall.EINVAL},
			"newline":  {"a\nb", []string{ids("1")}, syscall.EINVAL},
			"no lists": {"g", nil, syscall.EINVAL},
		} {
			_, err := s.AddGroup(s.ctx, key, row.group, row.lists)
			want(t, name, err, row.errno, "group")
		}
		lists := []string{
			"10.0.0.[1-2]@tcp", "12345-10.0.0.2@tcp,10.0.0.3@tcp", "10.0.0.[1@tcp", "fd00::1@tcp", "10.0.0.77@tcp", "10.0.0.3@tcp",
		}
		a, err := s.AddGroup(s.ctx, key, "g", lists)
		if err != nil || a.Deleted || a.Compatible {
			t.Fatalf("%+v, %v", a, err)
		}
		type row struct {
			bad, added       bool
			asked, succeeded int
		}
		var rows []row
		for k, l := range a.Lists {
			if l.IDs != lists[k] {
				t.Errorf("list %d is %q", k, l.IDs)
			}
			rows = append(rows, row{l.Error != nil, l.Added, len(l.Result.Nodes), l.Result.Succeeded})
		}
		expected := []row{{false, true, 2, 2}, {false, true, 1, 1}, {bad: true}, {bad: true}, {false, false, 1, 0}, {added: true}}
		if diff := cmp.Diff(expected, rows, cmp.AllowUnexported(row{})); diff != "" {
			t.Error(diff)
		}
		if n := a.Lists[4].Result.Nodes[0]; n.RPC == 0 || n.State != Down || n.ID.String() != "12345-10.0.0.77@tcp" {
			t.Errorf("%+v", n)
		}
		if diff := cmp.Diff([]State{Active, Active, Active, Down}, s.states("g")); diff != "" {
			t.Error(diff)
		}
		_, err = s.AddGroup(s.ctx, key, "g", []string{ids("4")})
		want(t, "again", err, syscall.EEXIST, "group")

		// No node joins: the group is deleted, but the nodes of other groups stay.
		for _, lists := range [][]string{{"10.0.0.78@tcp"}, {"nonsense"}} {
			a, err = s.AddGroup(s.ctx, key, "nobody", lists)
			if err != nil || !a.Deleted {
				t.Errorf("%+v, %v", a, err)
			}
		}
		// All nodes are already members and are not asked.
		a, err = s.AddGroup(s.ctx, key, "h", []string{ids("1,3")})
		if err != nil || a.Deleted || !a.Lists[0].Added || len(a.Lists[0].Result.Nodes) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		names, err := s.Groups(key)
		if diff := cmp.Diff([]string{"g", "h"}, names); diff != "" || err != nil {
			t.Error(diff, err)
		}
		_, err = s.Group(key, "i")
		want(t, "no such group", err, syscall.ENOENT, "group")
		if i, _ := s.ShowSession(); i.Nodes != 4 {
			t.Errorf("%+v", i)
		}

		// The value as a client of the control socket receives it.
		g, err := s.Group(key, "h")
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		const golden = `{"name":"h","in_use":false,"count":{"active":2,"busy":0,"down":0,"unknown":0,"total":2},` +
			`"nodes":[{"id":"12345-10.0.0.1@tcp","state":"Active"},{"id":"12345-10.0.0.3@tcp","state":"Active"}]}`
		if diff := cmp.Diff(golden, string(text)); diff != "" {
			t.Error(diff)
		}
		var back GroupInfo
		if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(back.Nodes, g.Nodes) || back.Count != g.Count {
			t.Errorf("%+v, %v", back, err)
		}

		// A node stays until its last group is deleted.
		if r, err := s.DeleteGroup(s.ctx, key, "g"); err != nil || r.Succeeded != 1 || r.Nodes[0].ID.NID != s.nodes[1].nid {
			t.Errorf("%+v, %v", r, err)
		}
		s.empty(s.nodes[1])
		if _, ok := s.nodes[0].agent.Session(); !ok {
			t.Error("a shared node was removed")
		}
		_, err = s.DeleteGroup(s.ctx, key, "g")
		want(t, "delete again", err, syscall.ENOENT, "group")
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		s.empty(s.nodes...)
	})
}

// Given a group with nodes in all states, when it is refreshed and cleaned and nodes are removed, then it
// changes accordingly, and nodes with two references keep none.
//
// selftest 7.2, 7.3 (3)-(4), 7.4 (1)
func TestUpdateGroup(t *testing.T) {
	onStage(t, 4, func(t *testing.T, s *stage) {
		other := s.console(s.nodes[3])
		if _, err := other.NewSession(s.ctx, SessionOptions{Key: 1, Name: "other"}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.AddGroup(s.ctx, 1, "g", []string{ids("2")}); err != nil {
			t.Fatal(err)
		}
		s.cut(s.nodes[2])
		s.session()
		a, err := s.AddGroup(s.ctx, key, "g", []string{ids("1-3")})
		if err != nil || !a.Lists[0].Added {
			t.Fatalf("%+v, %v", a, err)
		}
		n := a.Lists[0].Result.Nodes[1]
		if n.Status != syscall.EBUSY || n.State != Busy || n.Session == nil || n.Session.Name != "other" || n.Session.NID.NID() != s.nodes[3].nid {
			t.Errorf("%+v", n)
		}
		r := a.Lists[0].Result
		if r.Answered != 2 || r.Unanswered != 1 || r.Succeeded != 1 || r.Refused != 1 || r.Errno != syscall.EBUSY || r.RPCErrno == 0 || r.OK() {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff([]State{Active, Busy, Down}, s.states("g")); diff != "" {
			t.Error(diff)
		}

		_, err = s.RefreshGroup(s.ctx, key, "h")
		want(t, "refresh", err, syscall.ENOENT, "group")
		_, err = s.CleanGroup(s.ctx, key, "h", Down)
		want(t, "clean", err, syscall.ENOENT, "group")
		_, err = s.CleanGroup(s.ctx, key, "g", 0)
		want(t, "clean nothing", err, syscall.EINVAL, "group")
		_, err = s.RemoveFromGroup(s.ctx, key, "g", []string{"["})
		want(t, "remove nonsense", err, syscall.EINVAL, "nodes")
		_, err = s.RemoveFromGroup(s.ctx, key, "g", []string{ids("4")})
		want(t, "remove a stranger", err, syscall.ENOENT, "nodes")

		s.mend(s.nodes[2])
		time.Sleep(time.Minute)
		change, err := s.RefreshGroup(s.ctx, key, "g")
		if err != nil || len(change.Result.Nodes) != 2 || change.Result.Succeeded != 1 {
			t.Errorf("%+v, %v", change, err)
		}
		if diff := cmp.Diff([]State{Active, Busy, Active}, s.states("g")); diff != "" {
			t.Error(diff)
		}
		change, err = s.CleanGroup(s.ctx, key, "g", Invalid)
		if err != nil || change.Removed != 1 || change.Deleted {
			t.Errorf("%+v, %v", change, err)
		}
		if i, ok := s.nodes[1].agent.Session(); !ok || i.Name != "other" {
			t.Errorf("another's node: %+v", i)
		}

		// Its answer is lost and it is asked again, so it has two references.
		s.group("twice", "4")
		m := s.session4(t)
		s.mu.Lock()
		m.state = Unknown
		s.mu.Unlock()
		if change, err = s.RefreshGroup(s.ctx, key, "twice"); err != nil || change.Result.Succeeded != 1 {
			t.Errorf("%+v, %v", change, err)
		}
		if i, _ := s.nodes[3].agent.Session(); i.References != 2 {
			t.Errorf("%d references", i.References)
		}
		change, err = s.RemoveFromGroup(s.ctx, key, "twice", []string{ids("4")})
		if err != nil || change.Removed != 1 || !change.Deleted || !change.Result.OK() {
			t.Errorf("%+v, %v", change, err)
		}
		s.empty(s.nodes[3])

		if change, err = s.CleanGroup(s.ctx, key, "g", Active); err != nil || change.Removed != 2 || !change.Deleted {
			t.Errorf("%+v, %v", change, err)
		}
		s.empty(s.nodes[0], s.nodes[2])
		if list, _ := s.Groups(key); len(list) != 0 {
			t.Errorf("%v", list)
		}
	})
}

// session4 returns the member 10.0.0.4.
func (s *stage) session4(t *testing.T) *member {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.Console.session.members {
		if m.id.NID == s.nodes[3].nid {
			return m
		}
	}
	t.Fatal("no such member")
	return nil
}

// Given two consoles that want the same node, then the second is refused, unless it uses force. Then the
// first console sees that its node is busy, and when it ends its session, the other session continues.
//
// selftest 7.2, 7.4 (1), 11 (4)
func TestSecondConsole(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.session([2]string{"g", "1"})
		other := s.console(s.nodes[1])
		if _, err := other.NewSession(s.ctx, SessionOptions{Key: 1, Name: "second"}); err != nil {
			t.Fatal(err)
		}
		a, err := other.AddGroup(s.ctx, 1, "g", []string{ids("1")})
		if err != nil || !a.Deleted || a.Lists[0].Added || a.Lists[0].Result.Errno != syscall.EBUSY {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := other.NewSession(s.ctx, SessionOptions{Key: 1, Name: "third", Force: true}); err != nil {
			t.Fatal(err)
		}
		if a, err := other.AddGroup(s.ctx, 1, "g", []string{ids("1")}); err != nil || !a.Lists[0].Added {
			t.Fatalf("%+v, %v", a, err)
		}
		r, err := s.Ping(s.ctx, key, Target{Group: "g"}, 0)
		if err != nil || r.Nodes[0].State != Busy || r.Nodes[0].Success || r.Nodes[0].Session.Name != "third" {
			t.Errorf("%+v, %v", r, err)
		}
		v, err := s.Stat(s.ctx, key, []string{"g"}, 0)
		if err != nil || v.Targets[0].Failed != 1 || v.Targets[0].Nodes[0].Status != syscall.ESRCH {
			t.Errorf("%+v, %v", v, err)
		}
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		if i, ok := s.nodes[0].agent.Session(); !ok || i.Name != "third" {
			t.Errorf("%+v", i)
		}
	})
}

// Given a list of one live node and hundreds of dead ones, when it is added as a group, then the live node
// joins in time, and the end of the session does not wait for the dead ones.
func TestGroupOfDeadNodes(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		s.session()
		a, err := s.AddGroup(s.ctx, key, "big", []string{"10.20.0.[0-199]@tcp", ids("1")})
		if err != nil || a.Deleted || a.Lists[0].Added || len(a.Lists[0].Result.Nodes) != 200 || !a.Lists[1].Added {
			t.Errorf("%v, deleted %t, %d asked", err, a.Deleted, len(a.Lists[0].Result.Nodes))
		}
		g, err := s.Group(key, "big")
		if err != nil || g.Count.Active != 1 || g.Count.Down != 200 {
			t.Errorf("%+v, %v", g.Count, err)
		}
		began := time.Now()
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*minLimit {
			t.Errorf("the end took %v", took)
		}
		s.empty(s.nodes...)
	})
}

// Given nodes whose session has a name with escape sequences, when they report it, then the name for the
// user's terminal does not contain them.
func TestNamesAreMadePrintable(t *testing.T) {
	onStage(t, 0, func(t *testing.T, s *stage) {
		const shown = "?]0;owned??[2J?"
		other, name := message.SessionID{NID: 0x20000_0a000001, Stamp: 5}, message.NameOf("\x1b]0;owned\x07\x1b[2J\xff")
		s.act("10.0.0.50", func(q message.Request) []byte {
			h := message.NewHeader(1)
			if _, ok := q.(*message.MakeSessionRequest); ok {
				return (&message.MakeSessionReply{Header: h, Status: message.EBUSY, Session: other, Name: name}).Append(nil)
			}
			return (&message.DebugReply{Header: h, Session: other, Name: name}).Append(nil)
		})
		s.session()
		r, err := s.Ping(s.ctx, key, Target{Nodes: []string{ids("50")}}, 0)
		if err != nil || r.Nodes[0].Session == nil || r.Nodes[0].Session.Name != shown {
			t.Errorf("ping: %+v, %v", r, err)
		}
		a, err := s.AddGroup(s.ctx, key, "g", []string{ids("50")})
		if err != nil || a.Lists[0].Result.Nodes[0].Session.Name != shown {
			t.Errorf("add: %+v, %v", a, err)
		}
	})
}

// Given nodes in and out of a session, when they are pinged, then each reports its session. Invalid
// targets are refused.
//
// selftest 7.2, 7.3 (3)
func TestPing(t *testing.T) {
	onStage(t, 3, func(t *testing.T, s *stage) {
		s.session([2]string{"c", "1"}, [2]string{"s", "2"})
		s.add(pingTest())
		for name, row := range map[string]struct {
			target Target
			errno  syscall.Errno
			thing  string
		}{
			"nothing":    {Target{}, syscall.EINVAL, "nodes"},
			"two things": {Target{Session: true, Group: "c"}, syscall.EINVAL, "nodes"},
			"no group":   {Target{Group: "x"}, syscall.ENOENT, "group"},
			"no batch":   {Target{Batch: "x"}, syscall.ENOENT, "batch"},
			"no nodes":   {Target{Nodes: []string{"x@y@z"}}, syscall.EINVAL, "nodes"},
		} {
			_, err := s.Ping(s.ctx, key, row.target, 0)
			want(t, name, err, row.errno, row.thing)
		}
		for name, row := range map[string]struct {
			target Target
			nodes  []string
			active int
		}{
			"session": {Target{Session: true}, []string{"10.0.0.1", "10.0.0.2"}, 2},
			"group":   {Target{Group: "s"}, []string{"10.0.0.2"}, 1},
			"clients": {Target{Batch: "batch"}, []string{"10.0.0.1"}, 1},
			"servers": {Target{Batch: "batch", Servers: true}, []string{"10.0.0.2"}, 1},
			"nodes":   {Target{Nodes: []string{ids("2-3"), ids("3")}}, []string{"10.0.0.2", "10.0.0.3"}, 1},
		} {
			r, err := s.Ping(s.ctx, key, row.target, time.Second)
			var nodes []string
			for _, n := range r.Nodes {
				nodes = append(nodes, n.ID.NID.IP().String())
				if n.State == Active && (n.Session.Name != "test" || n.Session.NID.NID() != s.master.nid) {
					t.Errorf("%s: %+v", name, n)
				}
				if n.State == Unknown && (n.Session != nil || n.Status != syscall.ESRCH) {
					t.Errorf("%s: %+v", name, n)
				}
			}
			if err != nil || r.Succeeded != row.active || r.Unanswered != 0 || !slices.Equal(nodes, row.nodes) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		if i, _ := s.ShowSession(); i.Nodes != 2 {
			t.Errorf("a node that was pinged has become one of the session: %+v", i)
		}
	})
}

// Given a node that cannot be reached, when it is added as a group, alone and together with another node,
// then it is counted as one error each time. The console does not try to remove a session that the node
// cannot have.
//
// selftest 7.3 (4)
func TestNobodyToRemoveFrom(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		s.Host("refuses", "10.0.0.78") // the other one has no host at all
		s.session()
		errors := uint32(0)
		for _, list := range []string{"10.0.0.77@tcp", "10.0.0.78@tcp", "10.0.0.[1,77-78]@tcp"} {
			a, err := s.AddGroup(s.ctx, key, "g", []string{list})
			if alone := a.Lists[0].Result.Answered == 0; err != nil || a.Deleted != alone {
				t.Errorf("%s: %+v, %v", list, a, err)
			}
			errors += uint32(a.Lists[0].Result.Unanswered)
		}
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		if got := s.master.agent.Counters().Errors; got != errors || errors != 4 {
			t.Errorf("%d errors of RPCs, %d nodes did not answer; want 4 each", got, errors)
		}
		s.empty(s.nodes...)
	})
}

// Given a node that another console has taken and released, when it is asked, then it is in no session.
// When its group is refreshed, it is in this console's session.
//
// selftest 7.2
func TestNodeInNoSession(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.session([2]string{"g", "1"})
		other := s.console(s.nodes[1])
		if _, err := other.NewSession(s.ctx, SessionOptions{Key: 1, Name: "other", Force: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.AddGroup(s.ctx, 1, "g", []string{ids("1")}); err != nil {
			t.Fatal(err)
		}
		if err := other.EndSession(s.ctx, 1); err != nil {
			t.Fatal(err)
		}
		r, err := s.Ping(s.ctx, key, Target{Group: "g"}, 0)
		if err != nil || r.Nodes[0].State != Unknown || r.Nodes[0].Success || r.Nodes[0].Session != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if change, err := s.RefreshGroup(s.ctx, key, "g"); err != nil || !change.Result.OK() {
			t.Errorf("%+v, %v", change, err)
		}
		if diff := cmp.Diff([]State{Active}, s.states("g")); diff != "" {
			t.Error(diff)
		}
	})
}

// The PID before a list of NIDs is that of nodes, or that of an application.
//
// decisions 242
func TestPIDOfAGroup(t *testing.T) {
	for text, want := range map[string]string{
		"U5-10.0.0.[1-2]@tcp,10.0.0.1@tcp": "U5-10.0.0.1@tcp U5-10.0.0.2@tcp",
		"2147483653-10.0.0.7@tcp":          "U5-10.0.0.7@tcp",
		"10.0.0.[1-2]@tcp":                 "12345-10.0.0.1@tcp 12345-10.0.0.2@tcp",
		"12345-10.0.0.1@tcp":               "12345-10.0.0.1@tcp",
		"7-10.0.0.1@tcp":                   "",
		"U12345-10.0.0.1@tcp":              "U12345-10.0.0.1@tcp",
		"x-10.0.0.1@tcp":                   "",
	} {
		all, err := parseIDs(text)
		var got []string
		for _, id := range all {
			got = append(got, id.String())
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
