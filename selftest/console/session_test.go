package console

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Given a console, when sessions are made, shown and ended, then only one exists at a time, and commands
// need its key.
//
// selftest 2.4, 7.1, 7.8
func TestSession(t *testing.T) {
	onStage(t, 1, func(t *testing.T, s *stage) {
		_, err := s.ShowSession()
		want(t, "show none", err, syscall.ESRCH, "session")
		want(t, "end none", s.EndSession(s.ctx, key), syscall.ESRCH, "session")
		_, err = s.NewSession(s.ctx, SessionOptions{Name: ""})
		want(t, "no name", err, syscall.EINVAL, "session")
		_, err = s.NewSession(s.ctx, SessionOptions{Name: strings.Repeat("x", 32)})
		want(t, "long name", err, syscall.EINVAL, "session")
		features := uint32(2)
		_, err = s.NewSession(s.ctx, SessionOptions{Name: "n", Features: &features})
		want(t, "unknown features", err, syscall.EPROTO, "session")

		first, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "first", Timeout: -1})
		if err != nil {
			t.Fatal(err)
		}
		expected := SessionInfo{
			Name: "first", NID: s.master.nid, Stamp: first.Stamp, Key: key, Features: 1, Timeout: 300 * time.Second,
		}
		if first != expected {
			t.Errorf("%+v, want %+v", first, expected)
		}
		s.group("g", "1")
		_, err = s.NewSession(s.ctx, SessionOptions{Key: key, Name: "second"})
		want(t, "another", err, syscall.EEXIST, "session")
		_, err = s.Groups(key + 1)
		want(t, "wrong key", err, syscall.EACCES, "session")
		want(t, "end with a wrong key", s.EndSession(s.ctx, key+1), syscall.EACCES, "session")
		expected.Nodes = 1
		if got, err := s.ShowSession(); err != nil || got != expected {
			t.Errorf("%+v, %v: the session has suffered", got, err)
		}

		second, err := s.NewSession(s.ctx, SessionOptions{Name: "second", Force: true})
		if err != nil || second.Key == 0 || second.Stamp <= first.Stamp || !second.Force || second.Nodes != 0 {
			t.Errorf("%+v, %v", second, err)
		}
		s.empty(s.nodes[0])
		// Batch IDs continue.
		if b, err := s.Batch(second.Key, "batch"); err != nil || b.ID != 2 || b.Running {
			t.Errorf("%+v, %v", b, err)
		}
		if err := s.EndSession(s.ctx, second.Key); err != nil {
			t.Error(err)
		}
		want(t, "end twice", s.EndSession(s.ctx, second.Key), syscall.ESRCH, "session")
		shut(t, s.Console)
		_, err = s.NewSession(s.ctx, SessionOptions{Name: "third"})
		want(t, "closed", err, syscall.ESHUTDOWN, "console")
	})
}

// Given a session on nodes, when no command comes for longer than the timeout, then it ends everywhere.
// While commands come, or one is running, it continues, also on the nodes.
//
// selftest 7.7 (1)-(2), 11 (4)
func TestIdleSessionExpires(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		if _, err := s.NewSession(s.ctx, SessionOptions{Key: key, Name: "idle", Timeout: 250 * time.Second}); err != nil {
			t.Fatal(err)
		}
		s.group("g", "1-2")
		// Twice as long as nodes keep a session without requests.
		time.Sleep(240 * time.Second)
		for _, p := range s.nodes {
			if i, ok := p.agent.Session(); !ok || i.Name != "idle" {
				t.Errorf("%v: not kept alive", p.nid)
			}
		}
		if _, err := s.Groups(key); err != nil {
			t.Fatal(err)
		}
		// A long command, and no other command during it.
		intervals := 0
		err := s.Watch(s.ctx, key, WatchOptions{Targets: []string{"g"}, Delay: 400 * time.Second, Count: 2}, func([]Interval) error {
			intervals++
			return nil
		})
		if err != nil || intervals != 2 {
			t.Errorf("%d intervals, %v", intervals, err)
		}
		time.Sleep(240 * time.Second)
		if _, err := s.ShowSession(); err != nil {
			t.Error(err)
		}
		time.Sleep(30 * time.Second)
		_, err = s.ShowSession()
		want(t, "expired", err, syscall.ESRCH, "session")
		s.empty(s.nodes...)
	})
}

// Given a session with a running test, when the console is closed, then its commands end, and in time no
// node has the session or runs the test, although one node is dead.
func TestCloseMidRun(t *testing.T) {
	onStage(t, 3, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1-2"}, [2]string{"s", "3"})
		s.add(pingTest())
		s.run("batch")
		s.cut(s.nodes[0])
		watched := make(chan error)
		go func() {
			watched <- s.Watch(context.Background(), key,
				WatchOptions{Targets: []string{"c"}, Delay: time.Second, Timeout: 30 * time.Second, Count: -1},
				func([]Interval) error { return nil })
		}()
		time.Sleep(2 * time.Second)
		started := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		defer cancel()
		err := s.Console.Close(ctx)
		if took := time.Since(started); took > 6*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed after %v: %v", took, err)
		}
		if err := <-watched; !errors.Is(err, syscall.ESHUTDOWN) {
			t.Errorf("watch: %v", err)
		}
		s.empty(s.nodes[1:]...)
		time.Sleep(200 * time.Second) // the session on the dead node expires
		s.empty(s.nodes...)
		s.mend(s.nodes[0])
		shut(t, s.Console) // a second time
	})
}

// Given commands that wait for other commands or for nodes, when their callers cancel them, then they return
// immediately and leave the session usable.
func TestImpatientCallers(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.session([2]string{"g", "1"})
		s.cut(s.nodes[1])
		type outcome struct {
			err  error
			took time.Duration
		}
		outcomes := make(chan outcome, 2)
		start := time.Now()
		for k, name := range []string{"first", "second"} {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(k+1)*time.Second)
			go func() {
				defer cancel()
				_, err := s.AddGroup(ctx, key, name, []string{ids("2")})
				outcomes <- outcome{err, time.Since(start)}
			}()
		}
		for range 2 {
			o := <-outcomes
			if !errors.Is(o.err, context.DeadlineExceeded) || o.took > 10*time.Second {
				t.Errorf("%+v", o)
			}
		}
		s.mend(s.nodes[1])
		time.Sleep(time.Minute)
		if list, err := s.Groups(key); err != nil || len(list) != 1 {
			t.Errorf("groups %v, %v", list, err)
		}
		s.group("second", "2")
		if err := s.EndSession(s.ctx, key); err != nil {
			t.Error(err)
		}
		s.empty(s.nodes...)
	})
}

// Given nodes whose console has died, then they end the session by themselves.
//
// selftest 11 (4)
func TestDeadConsole(t *testing.T) {
	onStage(t, 2, func(t *testing.T, s *stage) {
		s.slow()
		s.session([2]string{"c", "1"}, [2]string{"s", "2"})
		s.add(pingTest())
		s.run("batch")
		s.cut(s.master)
		time.Sleep(110 * time.Second)
		s.empty(s.nodes...)
		s.mend(s.master)
	})
}
