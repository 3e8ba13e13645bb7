package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/selftest/latency"
)

// hostedTest is a case of RunHosted: an exchange that is measured between clients of lnetd, from a node in the
// measuring process, and without LNet.
type hostedTest struct {
	test
	// far selects two clients of different lnetd processes. Otherwise both are clients of the same one.
	far bool
	// floor is the exchange without LNet that the result is compared with.
	floor floor
}

// floor is a fast exchange without LNet.
type floor uint8

const (
	floorSleeping floor = iota // two processes with eventfds and shared memory, which sleep
	floorPolling               // two processes with shared memory, which both poll
	floorCopying               // a memory copy
	floorTCP                   // plain TCP
)

// String returns the name of the floor in tables.
func (f floor) String() string { return []string{"eventfds", "spinning", "copy", "plain TCP"}[f] }

func hostedTests() []hostedTest {
	var ts []hostedTest
	add := func(far bool, f floor, t test) {
		t.machine, t.credits = true, highCredits
		where := "one lnetd"
		if far {
			where = "two lnetd"
		}
		t.name = where + ": " + t.name
		ts = append(ts, hostedTest{t, far, f})
	}
	message := func(far bool, f floor, name string, d tmhost.Delivery, g Goals) {
		add(far, f, test{name: "message 96 B and back, " + name, in: 96, out: 96, window: 1, delivery: d, Goals: g})
	}
	bulk := func(far bool, f floor, goal float64) {
		add(far, f, test{name: "bulk 1 MiB is fetched, 8 in flight", in: 1 << 20, window: 8, unit: gigabytes, Goals: atLeast(goal)})
		add(far, f, test{name: "bulk 1 MiB is brought, 8 in flight", out: 1 << 20, window: 8, unit: gigabytes, Goals: atLeast(goal)})
	}
	message(false, floorSleeping, "notified", tmhost.Sync, atMost(2.5))
	message(false, floorSleeping, "asynchronous", tmhost.Async, atMost(2.5))
	message(false, floorSleeping, "polling", tmhost.Poll, atMost(1))
	message(false, floorPolling, "polling", tmhost.Poll, Goals{})
	load := func(far bool, f floor, name string, d tmhost.Delivery, g Goals) {
		add(far, f, test{name: "message 96 B and back, 64 in flight, " + name, in: 96, out: 96, window: 64, delivery: d, unit: perSecond, Goals: g})
	}
	load(false, floorSleeping, "asynchronous", tmhost.Async, Goals{FigureGoal: millionPerSecond})
	load(false, floorSleeping, "polling", tmhost.Poll, Goals{FigureGoal: millionPerSecond})
	bulk(false, floorCopying, 0.9)
	message(true, floorTCP, "notified", tmhost.Sync, atMost(3))
	message(true, floorTCP, "asynchronous", tmhost.Async, atMost(3))
	message(true, floorTCP, "polling", tmhost.Poll, atMost(1.6))
	load(true, floorTCP, "asynchronous", tmhost.Async, Goals{})
	load(true, floorTCP, "polling", tmhost.Poll, Goals{})
	bulk(true, floorTCP, 0.95)
	return ts
}

// RunHosted measures programs whose transfer machines run in lnetd, and returns the results. Two processes must be running ServeHost
// and one ServeGuest for the far end. RunHosted calls start with files; start must start the process
// that runs ServeGuest for the near end with these files. It calls done with each result.
func RunHosted(ctx context.Context, c HostConfig, start func(PlainFiles) error, done func(*HostedResult)) (list []*HostedResult, err error) {
	h, err := startHosted(ctx, c, start)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for _, t := range hostedTests() {
		if c.Only != nil && !c.Only.MatchString(t.name) {
			continue
		}
		if t.delivery == tmhost.Poll && runtime.GOMAXPROCS(0) == 1 {
			continue // two ends can poll at the same time only on two processors
		}
		r, err := h.measure(ctx, &t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		done(r)
		list = append(list, r)
	}
	return list, nil
}

// hostedMethod is a way to make the exchanges of a hostedTest, with its results: through lnetd, through a node in
// this process, or without LNet.
type hostedMethod struct {
	run     func(n int, l *laps) (time.Duration, error)
	n       int
	figures []float64
	latency latency.Histogram
}

// round makes the exchanges of one round, and returns the figure of the case t.
func (m *hostedMethod) round(t *hostedTest) (float64, error) {
	var l *laps
	if t.unit == microseconds {
		l = newLaps(m.n)
	}
	took, err := m.run(m.n, l)
	if err != nil {
		return 0, err
	}
	if h := l.histogram(); h != nil {
		m.latency.Merge(h)
	}
	m.figures = append(m.figures, t.figure(took, m.n))
	return m.figures[len(m.figures)-1], nil
}

// hostedFirstRound is the usual number of exchanges in the first round of a hosted case.
const hostedFirstRound = 64

// measure measures one case. Its rounds alternate between the methods.
func (h *hostedBench) measure(ctx context.Context, t *hostedTest) (*HostedResult, error) {
	through := func(inside bool) func(n int, l *laps) (time.Duration, error) {
		s := h.senders[hostedKey{inside, t.far, t.delivery}]
		return func(n int, l *laps) (time.Duration, error) {
			return s.run(ctx, exchange{n: n, in: t.in, out: t.out, window: t.window}, l)
		}
	}
	ours := &hostedMethod{}
	var spent rounds
	counted := func(calls bool) func(n int, l *laps) (time.Duration, error) {
		return func(n int, l *laps) (time.Duration, error) {
			r, err := h.count(t, n, calls, func() (time.Duration, error) { return through(false)(n, l) })
			spent.costs(&r)
			return r.Took, err
		}
	}
	ours.run = counted(false)
	ways := []*hostedMethod{ours, {run: through(true)}, {run: h.floorOf(t)}}
	first := h.config.firstRound(hostedFirstRound, t.window)
	for _, l := range ways {
		took, err := l.run(first, nil)
		if err != nil {
			return nil, err
		}
		l.n = h.config.exchanges(first, took)
		l.n -= l.n % t.window
	}
	spent = rounds{}
	var ratios, inside []float64
	for range h.config.Rounds {
		var now []float64
		for _, l := range ways {
			v, err := l.round(t)
			if err != nil {
				return nil, err
			}
			now = append(now, v)
		}
		ratios, inside = append(ratios, now[0]/now[2]), append(inside, now[0]/now[1])
	}
	for range countedRounds {
		if _, err := counted(true)(ours.n, nil); err != nil {
			return nil, err
		}
	}
	costs := spent.measured()
	asks := costs.Asks
	r := &HostedResult{
		Case: t.name, In: t.in, Out: t.out, InFlight: t.window, Unit: t.unit.String(), Goals: t.Goals,
		LNet: spreadOf(ways[0].figures), Inproc: spreadOf(ways[1].figures), Plain: spreadOf(ways[2].figures), PlainIs: t.floor.String(),
		LNetLatency: latencyOf(&ways[0].latency), InprocLatency: latencyOf(&ways[1].latency), PlainLatency: latencyOf(&ways[2].latency),
		Ratio: spreadOf(ratios), OfInproc: spreadOf(inside),
		Asks: asks, Daemons: costs.Answers, Bells: asks[Bells].Median, Allocs: asks[Allocs].Median, test: t,
	}
	r.Missed = t.missed(r.Ratio.Median, r.LNet.Median, nil)
	return r, nil
}

// floorOf returns the function that makes n exchanges of a case without LNet.
func (h *hostedBench) floorOf(t *hostedTest) func(n int, l *laps) (time.Duration, error) {
	switch t.floor {
	case floorSleeping:
		return h.plain.exchange
	case floorPolling:
		return h.plain.spin
	case floorCopying:
		return func(n int, _ *laps) (time.Duration, error) {
			start := time.Now()
			for k := range n {
				copy(h.to[k%tmBulks].Bytes(), h.from[k%tmBulks].Bytes())
			}
			return time.Since(start), nil
		}
	}
	return func(n int, l *laps) (time.Duration, error) { return h.tcp.exchange(n, t.in, t.out, t.window, l) }
}

// count returns the time and the costs of f for each of the n exchanges that f makes for a case: Asks are those of this
// process, and Answers those of all lnetd that take part. With calls, it counts only system calls.
func (h *hostedBench) count(t *hostedTest, n int, calls bool, f func() (time.Duration, error)) (r Round, err error) {
	core := h.guest.cores[0]
	if t.delivery == tmhost.Poll {
		core = h.guest.cores[1]
	}
	before := core.Stats()
	hosts := slices.DeleteFunc(slices.Clone(h.config.hosts(t.far)), func(p *Process) bool { return p == nil })
	for _, p := range hosts {
		if err := p.beginCosts(calls); err != nil {
			return r, err
		}
	}
	if err := h.meter.begin(calls); err != nil {
		return r, err
	}
	if r.Took, err = f(); err != nil {
		return r, err
	}
	asks, err := h.meter.end()
	if err != nil {
		return r, err
	}
	if !calls {
		now := core.Stats()
		asks[Bells] = float64(now.BellWrites + now.BellReads - before.BellWrites - before.BellReads)
	}
	all := Cost{}
	for _, p := range hosts {
		c, err := p.endCosts()
		if err != nil {
			return r, err
		}
		for name, v := range c {
			all[name] += v
		}
	}
	r.Asks, r.Answers = asks.each(n, nil), all.each(n, nil)
	return r, nil
}
