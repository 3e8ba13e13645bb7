package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Parameters of ServeProbes: the number of peers, and the pause between two messages of one of them.
const (
	probes     = 16
	probeEvery = 10 * time.Millisecond
)

// Names of what ServeProbes returns instead of costs: percentiles of times in microseconds, and the number of times. Those
// with echoPrefix are of the messages of ServeEcho.
const (
	probeP50   = "p50"
	probeP99   = "p99"
	probeCount = "count"
	echoPrefix = "echo_"
)

// ServeEcho runs a plain TCP server, in a process in which nothing else happens. Its answers to ServeProbes take as long
// as the machine needs for two processes that wake each other. It calls ready when it listens, and returns when ctx is
// done.
func ServeEcho(ctx context.Context, c Config, ready func()) error {
	l, err := net.Listen("tcp", c.echoAddress())
	if err != nil {
		return err
	}
	ready()
	return floorServer(ctx, l)
}

// echoAddress returns the address and port of ServeEcho.
func (c *Config) echoAddress() string {
	return netip.AddrPortFrom(c.Client, uint16(c.Port+1)).String()
}

// echoAll exchanges a message with ServeEcho at regular intervals while times returns a recorder, until ctx is done or a
// connection ends.
func echoAll(ctx context.Context, all floors, times func() *latency.Recorder) {
	for _, f := range all {
		go func() {
			message, answer := floorMessage(0, 0), make([]byte, headSize)
			for sleep(ctx, probeEvery) == nil {
				r, began := times(), time.Now()
				if r == nil {
					continue
				}
				if f.once(message, answer) != nil {
					return
				}
				r.Record(time.Since(began))
			}
		}()
	}
}

// ServeProbes runs peers of the node of Serve, each of which sends a message at regular intervals while costs are
// counted. The messages are timed, except the first one after connections were lost. So are messages to ServeEcho, which
// must run. It reads requests from r, writes
// responses to w, calls ready when it has started, and returns when r ends.
func ServeProbes(ctx context.Context, c Config, r io.Reader, w io.Writer, ready func()) (err error) {
	d, err := newStaticDriver(&c)
	if err != nil {
		return err
	}
	var times, echoes atomic.Pointer[latency.Recorder] // nil while costs are not counted
	s := &Storms{driver: d}
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		err = errors.Join(err, s.Close(last))
	}()
	for k := range probes {
		m, err := openCaller(ctx, d, netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + k)}), c.Server, func(took time.Duration, again bool) {
			if r := times.Load(); r != nil && again {
				r.Record(took)
			}
		})
		if err != nil {
			return err
		}
		s.callers = append(s.callers, m)
	}
	plain, err := dialFloors(ctx, c.echoAddress(), probes)
	if err != nil {
		return err
	}
	defer plain.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	echoAll(ctx, plain, echoes.Load)
	go func() {
		for sleep(ctx, probeEvery) == nil {
			if times.Load() != nil {
				s.callAll()
			}
		}
	}()
	ready()
	return serveRequests(ctx, r, w, func(a request) (response, error) {
		switch a.Do {
		case doBeginCosts:
			times.Store(new(latency.Recorder))
			echoes.Store(new(latency.Recorder))
			return response{}, nil
		case doEndCosts:
			cost := timesAsCost(times.Swap(nil))
			for name, v := range timesAsCost(echoes.Swap(nil)) {
				cost[echoPrefix+name] = v
			}
			return response{Cost: cost}, nil
		}
		return response{}, fmt.Errorf("this measurement process does not know the request %q", a.Do)
	})
}

// callAll makes each peer send a message, unless it waits for an answer.
func (s *Storms) callAll() {
	for _, m := range s.callers {
		m.call()
	}
}

// timesAsCost returns the percentiles of recorded times.
func timesAsCost(r *latency.Recorder) Cost {
	var h latency.Histogram
	r.AddTo(&h)
	us := func(share float64) float64 { return float64(h.Quantile(share).Nanoseconds()) / 1000 }
	return Cost{probeP50: us(0.5), probeP99: us(0.99), probeCount: float64(h.Count())}
}
