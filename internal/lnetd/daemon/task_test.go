package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// story records reports of tasks, in order.
type story struct {
	mu    sync.Mutex
	lines []string
}

func (s *story) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// fakeTask reports its beginning and its end.
type fakeTask struct {
	name  string
	story *story
	ready chan struct{}
	// run, if not nil, is called once the task is ready.
	run func(ctx context.Context) error
	// slow, if not nil, delays the task's readiness.
	slow <-chan struct{}
}

func (t *fakeTask) Run(ctx context.Context) error {
	t.story.add("%s begins", t.name)
	defer t.story.add("%s ends", t.name)
	if t.slow != nil {
		select {
		case <-t.slow:
		case <-ctx.Done():
			return nil
		}
	}
	close(t.ready)
	if t.run != nil {
		return t.run(ctx)
	}
	<-ctx.Done()
	return nil
}

func (t *fakeTask) Ready() <-chan struct{} { return t.ready }
func (t *fakeTask) String() string         { return t.name }

func (s *story) task(name string) *fakeTask {
	return &fakeTask{name: name, story: s, ready: make(chan struct{})}
}

func TestTasksStartInOrderAndStopInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, []Task{s.task("a"), s.task("b"), s.task("c")},
			func() { s.add("started"); cancel() },
			func() { s.add("stopping") }, time.Minute)
		if err != nil {
			t.Error(err)
		}
		want := []string{"a begins", "b begins", "c begins", "started", "stopping", "c ends", "b ends", "a ends"}
		if diff := cmp.Diff(want, s.lines); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTaskThatFailsStopsTheOthers(t *testing.T) {
	boom := errors.New("boom")
	for name, when := range map[string]func(context.Context) error{
		"at once": func(context.Context) error { return boom },
		"later":   func(context.Context) error { <-time.After(time.Hour); return boom },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s story
				b := s.task("b")
				b.run = when
				err := run(t.Context(), []Task{s.task("a"), b}, func() {}, func() {}, time.Minute)
				if !errors.Is(err, boom) || err.Error() != "b: boom" {
					t.Errorf("error %v", err)
				}
				if !slices.Contains(s.lines, "a ends") {
					t.Errorf("a still runs: %q", s.lines)
				}
			})
		})
	}
}

// If a task fails before it is ready, later tasks do not start.
func TestTaskThatNeverGetsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		bad := &unready{errors.New("no luck")}
		err := run(t.Context(), []Task{s.task("a"), bad, s.task("c")},
			func() { t.Error("started") }, func() {}, time.Minute)
		if err == nil || err.Error() != "unready: no luck" {
			t.Errorf("error %v", err)
		}
		if diff := cmp.Diff([]string{"a begins", "a ends"}, s.lines); diff != "" {
			t.Error(diff)
		}
	})
}

type unready struct{ err error }

func (u *unready) Run(context.Context) error { return u.err }
func (u *unready) Ready() <-chan struct{}    { return nil }
func (u *unready) String() string            { return "unready" }

func TestTaskThatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		a := s.task("a")
		a.run = func(context.Context) error { return nil }
		err := run(t.Context(), []Task{a}, func() {}, func() {}, time.Minute)
		if err == nil || err.Error() != "a: ended unexpectedly" {
			t.Errorf("error %v", err)
		}
	})
}

func TestStopWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		ctx, cancel := context.WithCancel(t.Context())
		slow := s.task("slow")
		slow.slow = make(chan struct{})
		time.AfterFunc(time.Second, cancel)
		err := run(ctx, []Task{s.task("a"), slow, s.task("never")}, func() { t.Error("started") }, func() {}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"a begins", "slow begins", "slow ends", "a ends"}, s.lines); diff != "" {
			t.Error(diff)
		}
	})
}

// A task that hangs does not prevent the daemon from ending, and is named.
func TestTaskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s story
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		hang := s.task("hang")
		hang.run = func(context.Context) error { <-release; return nil }
		begin := time.Now()
		err := run(ctx, []Task{s.task("a"), hang}, cancel, func() {}, time.Minute)
		if !errors.Is(err, errUnfinished) || !strings.HasPrefix(err.Error(), "a, hang: ") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("took %v", took)
		}
		close(release)
		synctest.Wait()
	})
}
