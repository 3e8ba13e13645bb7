package perf

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// stream is a number of exchanges by all clients in turn.
type stream struct {
	n            int64
	begun, ended atomic.Int64
	turn         atomic.Int64      // of the next client
	times        *latency.Recorder // nil: not recorded
	done         chan struct{}
	failed       chan error // of capacity one: receives the error of the first exchange that fails
}

// streams measures exchanges by all clients in turn.
func (s *Clients) streams(ctx context.Context, passive *Process, r *Routed) error {
	first := 2 * len(s.all)
	took, err := s.run(ctx, first, routedInFlight, nil)
	if err != nil {
		return err
	}
	if err := passive.beginCosts(false); err != nil {
		return err
	}
	n := max(first, int(float64(first)*routedTime.Seconds()/took.Seconds()))
	if took, err = s.run(ctx, n, routedInFlight, nil); err != nil {
		return err
	}
	cost, err := passive.endCosts()
	if err != nil {
		return err
	}
	each := cost.each(n, nil)
	r.Rate, r.CPU, r.Calls, r.Wakeups = float64(n)/took.Seconds(), each[CPU], each[IOSyscalls], each[Wakeups]
	var times latency.Recorder
	alone := int(max(1000, r.Rate*probeTime.Seconds()/routedInFlight))
	if _, err := s.run(ctx, alone, 1, &times); err != nil {
		return err
	}
	r.Alone = percentilesOf(timesAsCost(&times), "")
	return nil
}

// run makes n exchanges, with inFlight in flight, and returns the time taken. It records the time of each in times,
// unless that is nil. If an exchange fails, it returns the error at once.
func (s *Clients) run(ctx context.Context, n, inFlight int, times *latency.Recorder) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stormLimit)
	defer cancel()
	r := &stream{n: int64(n), times: times, done: make(chan struct{}), failed: make(chan error, 1)}
	s.stream.Store(r)
	defer s.stream.Store(nil)
	start := time.Now()
	for range min(n, inFlight, len(s.all)) {
		s.next(r)
	}
	select {
	case <-r.done:
		return time.Since(start), nil
	case err := <-r.failed:
		return 0, fmt.Errorf("%d of %d exchanges through the router, then one failed: %w", r.ended.Load(), n, err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%d of %d exchanges through the router: %w", r.ended.Load(), n, ctx.Err())
	}
}

// next makes the next client that does not wait for an answer send a message, unless all exchanges of r have begun.
func (s *Clients) next(r *stream) {
	if r.begun.Add(1) > r.n {
		return
	}
	for sent := false; !sent; {
		sent = s.all[(r.turn.Add(1)-1)%int64(len(s.all))].call()
	}
}
