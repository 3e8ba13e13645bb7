package perf

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// Spread summarizes the values of one figure or cost over all rounds.
type Spread struct {
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"` // the first quartile
	Q3     float64 `json:"q3"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(v []float64) Spread {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return Spread{}
	}
	last := len(s) - 1
	return Spread{Median: s[len(s)/2], Q1: s[last/4], Q3: s[last-last/4], Min: s[0], Max: s[last]}
}

// Measured is the result of one method for a case.
type Measured struct {
	// Figure is the time, rate or bandwidth, in the unit of the case.
	Figure Spread `json:"figure"`
	// Messages is the number of exchanges per round.
	Messages int `json:"messages"`
	// Asks and Answers are the costs per exchange in the active and in the passive process, by name.
	Asks    map[string]Spread `json:"asks,omitempty"`
	Answers map[string]Spread `json:"answers,omitempty"`
	// Latency is set if the unit of the case is time, except for LNet selftest.
	Latency *Latency `json:"latency,omitempty"`
}

// Result is the result of a case.
type Result struct {
	Case     string `json:"case"`
	In       int    `json:"in_bytes"`
	Out      int    `json:"out_bytes"`
	InFlight int    `json:"in_flight"`
	Unit     string `json:"unit"` // us, GB/s or 1/s
	Goals
	LNet  *Measured `json:"lnetd"`
	Floor *Measured `json:"floor"`
	Limit *Measured `json:"limit"`
	// Ratio is the figure of lnetd divided by the figure of the floor, for each round. OfLimit is the
	// figure of lnetd divided by the figure of the limit.
	Ratio   Spread `json:"ratio"`
	OfLimit Spread `json:"of_limit"`
	// CostRatios are costs of both processes of lnetd divided by those of the floor.
	CostRatios map[string]float64 `json:"cost_ratios"`
	// Missed describes the goals that were missed.
	Missed []string `json:"missed,omitempty"`

	test *test
}

// rounds collects the results of the rounds of one method.
type rounds struct {
	n             int // number of exchanges per round
	figures       []float64
	asks, answers map[string][]float64
	latency       latency.Histogram
}

func (s *rounds) add(t *test, r *Round) float64 {
	f := t.figure(r.Took, s.n)
	s.figures = append(s.figures, f)
	s.costs(r)
	if r.Latency != nil {
		s.latency.Merge(r.Latency)
	}
	return f
}

// costs adds only the costs of a round, and not its figure.
func (s *rounds) costs(r *Round) {
	for _, x := range []struct {
		into *map[string][]float64
		cost Cost
	}{{&s.asks, r.Asks}, {&s.answers, r.Answers}} {
		if *x.into == nil {
			*x.into = map[string][]float64{}
		}
		for name, v := range x.cost {
			(*x.into)[name] = append((*x.into)[name], v)
		}
	}
}

func (s *rounds) measured() *Measured {
	spreads := func(m map[string][]float64) map[string]Spread {
		out := make(map[string]Spread, len(m))
		for name := range maps.Keys(m) {
			out[name] = spreadOf(m[name])
		}
		return out
	}
	return &Measured{
		Figure: spreadOf(s.figures), Messages: s.n, Asks: spreads(s.asks), Answers: spreads(s.answers), Latency: latencyOf(&s.latency),
	}
}

// countedRounds is the number of additional rounds that only count system calls.
const countedRounds = 3

// firstRound is the usual number of exchanges in the first round, which determines the number of exchanges
// in the other rounds.
const firstRound = 128

// firstRound returns the number of exchanges in the first round of a case with the given number in flight.
// usual is the number if c does not set it.
func (c *Config) firstRound(usual, window int) int {
	if c.first == 0 {
		return usual
	}
	return max(c.first, window)
}

// size runs a first round with a method, and returns the number of exchanges for the other rounds. The
// first round also warms the method up.
func size(ctx context.Context, c *Config, a benchPair, t *test, method Method) (int, error) {
	first := c.firstRound(firstRound, t.window)
	r, err := a.run(ctx, method, first, false)
	if err != nil {
		return 0, err
	}
	n := c.exchanges(first, r.Took)
	return n - n%t.window, nil
}

// exchanges returns how many exchanges a round must have to last c.Time, if first exchanges took the
// given time. It returns at least first.
func (c *Config) exchanges(first int, took time.Duration) int {
	return max(first, int(c.Time/max(took/time.Duration(first), 1)))
}

// measure measures one case. Its rounds alternate between the methods.
func measure(ctx context.Context, c *Config, a benchPair, t *test) (r *Result, err error) {
	if err := a.open(ctx, t.name); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close(ctx)) }()
	all := map[Method]*rounds{}
	for _, method := range methods {
		n, err := size(ctx, c, a, t, method)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		all[method] = &rounds{n: n}
	}
	all[MethodLNet].n = all[MethodFloor].n
	var ratios, ofLimit []float64
	for k := range c.Rounds + countedRounds {
		now := map[Method]float64{}
		for _, method := range methods {
			counted := k >= c.Rounds
			round, err := a.run(ctx, method, all[method].n, counted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", method, err)
			}
			if counted {
				all[method].costs(&round)
				continue
			}
			now[method] = all[method].add(t, &round)
		}
		if len(now) > 0 {
			ratios = append(ratios, now[MethodLNet]/now[MethodFloor])
			ofLimit = append(ofLimit, now[MethodLNet]/now[MethodLimit])
		}
	}
	r = t.result()
	r.LNet, r.Floor, r.Limit = all[MethodLNet].measured(), all[MethodFloor].measured(), all[MethodLimit].measured()
	r.Ratio, r.OfLimit = spreadOf(ratios), spreadOf(ofLimit)
	r.CostRatios = costRatios(r.LNet, r.Floor)
	r.Missed = t.missed(r.Ratio.Median, r.LNet.Figure.Median, r.CostRatios)
	return r, nil
}

// result returns a Result of the case without figures.
func (t *test) result() *Result {
	return &Result{
		Case: t.name, In: t.in, Out: t.out, InFlight: t.window, Unit: t.unit.String(),
		Goals: t.Goals, test: t,
	}
}

// chosen returns the cases whose names match c.Only. It returns an error if none does.
func (c *Config) chosen() ([]test, error) {
	list := slices.DeleteFunc(tests(), func(t test) bool { return c.Only != nil && !c.Only.MatchString(t.name) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no case has a name that %q matches; the first is %q", c.Only, tests()[0].name)
	}
	return list, nil
}

// Run measures the selected cases and returns their results. Serve must be running in another process.
// Run calls done with each result.
func Run(ctx context.Context, c Config, done func(*Result)) (results []*Result, err error) {
	cases, err := c.chosen()
	if err != nil {
		return nil, err
	}
	b, err := startBench(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, t := range cases {
		r, err := measure(ctx, &c, b, &t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		done(r)
		results = append(results, r)
	}
	return results, nil
}
