package perf

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/load/tracing"
	"github.com/lnetd/lnetd/internal/load/tracing/timeline"
	"github.com/lnetd/lnetd/memory/shared"
)

// TraceConfig configures Trace.
type TraceConfig struct {
	HostConfig
	// Requests is the number of requests of each kind that are recorded. Fewer are recorded on a very busy machine.
	Requests int
	// Delivery is the way in which programs get the events of their transfer machines.
	Delivery tmhost.Delivery
}

// DefaultTraceConfig returns a configuration that records on loopback. The sockets are in dir.
func DefaultTraceConfig(dir string) TraceConfig {
	return TraceConfig{HostConfig: DefaultHostConfig(dir), Requests: 100, Delivery: tmhost.Sync}
}

// PIDs are the processes of Trace, besides the process that calls it.
type PIDs struct{ NearHost, FarHost, NearGuest, FarGuest int }

// traceWarmUp is the number of requests before those that are recorded.
const traceWarmUp = 200

// traceTries is how often a recording is tried, each time with half as many requests, if there are more events
// than the kernel can store. Most of them come from other programs.
const traceTries = 5

// traceCase is a kind of request that Trace records.
type traceCase struct {
	name  string
	run   func(n int, l *laps) (time.Duration, error)
	roles map[string]int // the process of each role, besides the requester
}

// Trace records what the kernel does during requests of each kind whose name matches c.Only: a message of 96 bytes
// that is sent back, and without LNet a number. It needs the same processes as RunHosted, and returns
// tracing.ErrNotPermitted if this process is not allowed to record.
func Trace(ctx context.Context, c TraceConfig, start func(PlainFiles) (PIDs, error)) (list []*timeline.Timeline, err error) {
	if err := permittedToTrace(); err != nil {
		return nil, err
	}
	var pids PIDs
	h, err := startHosted(ctx, c.HostConfig, func(f PlainFiles) (err error) {
		pids, err = start(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	cases, err := h.traceCases(ctx, c.Delivery, pids, c.Only)
	if err != nil {
		return nil, err
	}
	for _, t := range cases {
		r, err := t.record(c.Requests)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		line, err := timeline.New(t.name, r)
		if err != nil {
			return nil, err
		}
		list = append(list, line)
	}
	return list, nil
}

// permittedToTrace returns an error if this process is not allowed to record.
func permittedToTrace() error {
	r, err := tracing.Open()
	if err == nil {
		r.Close()
	}
	return err
}

// traceCases returns the cases with a name that only matches. It returns an error if no case has one.
func (h *hostedBench) traceCases(ctx context.Context, d tmhost.Delivery, pids PIDs, only *regexp.Regexp) (list []traceCase, err error) {
	message := func(inside, far bool) func(n int, l *laps) (time.Duration, error) {
		s := h.senders[hostedKey{inside, far, d}]
		return func(n int, l *laps) (time.Duration, error) {
			return s.run(ctx, exchange{n: n, in: 96, out: 96, window: 1}, l)
		}
	}
	net := "TCP"
	if h.config.RDMA {
		net = "RDMA"
	}
	all := []traceCase{
		{"two eventfds", h.plain.exchange, map[string]int{"responder": pids.NearGuest}},
		{"inproc, over " + net, message(true, true), map[string]int{"responder": pids.FarHost}},
		{"one lnetd", message(false, false), map[string]int{"lnetd": pids.NearHost, "responder": pids.NearGuest}},
		{"two lnetd, over " + net, message(false, true), map[string]int{"lnetd 1": pids.NearHost, "lnetd 2": pids.FarHost, "responder": pids.FarGuest}},
	}
	for _, t := range all {
		if only == nil || only.MatchString(t.name) {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no kind of request has a name that %q matches; the first is %q", only, all[0].name)
	}
	return list, nil
}

// record makes n requests and records them. If events were lost, it does so again with fewer requests.
func (t *traceCase) record(n int) (*timeline.Recording, error) {
	if _, err := t.run(traceWarmUp, nil); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r, err := t.recordOnce(n)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, tracing.ErrLost) || try == traceTries {
			return nil, fmt.Errorf("record %d requests: %w", n, err)
		}
		n = max(1, n/2)
	}
}

func (t *traceCase) recordOnce(n int) (*timeline.Recording, error) {
	recorder, err := tracing.Open()
	if err != nil {
		return nil, err
	}
	defer recorder.Close()
	processes := map[int]string{}
	if err := t.addThreads(processes); err != nil {
		return nil, err
	}
	l, clock := newLaps(n), shared.ReadClock()
	if err := recorder.Start(); err != nil {
		return nil, err
	}
	if _, err := t.run(n, l); err != nil {
		return nil, err
	}
	events, err := recorder.Stop()
	if err != nil {
		return nil, err
	}
	if err := t.addThreads(processes); err != nil { // those that were started meanwhile
		return nil, err
	}
	return &timeline.Recording{Events: events, Processes: processes, Windows: l.windows(clock)}, nil
}

// addThreads adds all threads of the processes of the case, with the role of the process.
func (t *traceCase) addThreads(roles map[int]string) error {
	add := func(role string, process string) error {
		tids, err := threads(process)
		for _, tid := range tids {
			roles[tid] = role
		}
		return err
	}
	for role, pid := range t.roles {
		if err := add(role, fmt.Sprint(pid)); err != nil {
			return err
		}
	}
	return add("requester", "self")
}
