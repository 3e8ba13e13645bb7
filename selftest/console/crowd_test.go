package console

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Given many callers that give random commands, some with short timeouts, while a node comes and goes,
// when all have finished and the session has ended, then every error was a documented one, and no
// reachable node has kept a session.
func TestCrowd(t *testing.T) {
	allowed := []error{
		syscall.ESRCH, syscall.ESHUTDOWN, syscall.EEXIST, syscall.ENOENT, syscall.EBUSY, syscall.EINVAL, syscall.ENETDOWN,
		context.DeadlineExceeded, ErrGroupChanged,
	}
	for seed := range uint64(10) {
		onStage(t, 3, func(t *testing.T, s *stage) {
			s.slow()
			var crowd sync.WaitGroup
			for k := range uint64(6) {
				crowd.Go(func() {
					r := rand.New(rand.NewPCG(seed, k))
					for range 60 {
						ctx, cancel := context.WithTimeout(s.ctx, time.Duration(1+r.IntN(4000))*time.Millisecond)
						err := s.something(ctx, r)
						cancel()
						known := err == nil
						for _, e := range allowed {
							known = known || errors.Is(err, e)
						}
						if !known {
							t.Error(err)
						}
						time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
					}
				})
			}
			crowd.Go(func() {
				for range 3 {
					time.Sleep(10 * time.Second)
					s.cut(s.nodes[2])
					time.Sleep(10 * time.Second)
					s.mend(s.nodes[2])
				}
			})
			crowd.Wait()
			shut(t, s.Console)
			s.empty(s.nodes[:2]...)
			if s.Console.session != nil {
				t.Error("the console has kept the session")
			}
			time.Sleep(200 * time.Second)
			s.empty(s.nodes...)
		})
	}
}

// something gives a random command or, with a lower probability, ends a session.
func (s *stage) something(ctx context.Context, r *rand.Rand) error {
	group := func() string { return fmt.Sprint("g", r.IntN(3)) }
	list := []string{ids([]string{"1", "2", "3", "1-2", "1-3"}[r.IntN(5)])}
	var err error
	switch r.IntN(16) {
	case 0:
		if r.IntN(4) == 0 {
			err = s.EndSession(ctx, key)
		}
	case 1, 2:
		_, err = s.NewSession(ctx, SessionOptions{Key: key, Name: "crowd", Force: r.IntN(8) == 0})
	case 3, 4, 5:
		_, err = s.AddGroup(ctx, key, group(), list)
	case 6:
		_, err = s.DeleteGroup(ctx, key, group())
	case 7:
		_, err = s.RemoveFromGroup(ctx, key, group(), list)
	case 8:
		_, err = s.RefreshGroup(ctx, key, group())
	case 9, 10:
		q := pingTest()
		q.Loop = 50
		q.From, q.To = group(), group()
		_, err = s.AddTest(ctx, key, q)
	case 11:
		_, err = s.Run(ctx, key, "batch", time.Duration(r.IntN(3))*time.Second)
	case 12:
		_, err = s.Stop(ctx, key, "batch", r.IntN(2) == 0)
	case 13:
		_, err = s.Query(ctx, key, "batch", QueryOptions{})
	case 14:
		_, err = s.Ping(ctx, key, Target{Session: true}, 0)
	case 15:
		err = s.Watch(ctx, key, WatchOptions{Targets: []string{group()}, Count: 1}, func([]Interval) error { return nil })
	}
	return err
}
