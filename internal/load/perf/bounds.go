package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Bounds are upper limits for the costs of exchanges. They limit counts and not times, because counts
// vary less on a busy machine.
type Bounds struct {
	// Bounds are the limits, by case, by process and by name of the cost.
	Bounds map[string]map[side]map[string]float64 `json:"bounds"`
	// Floors are the costs of plain TCP when the bounds were recorded, for the costs in scaled.
	Floors map[string]map[side]map[string]float64 `json:"floors,omitempty"`
}

// side is one of the two processes of a measurement, or in that of programs of an lnetd the active program or lnetd.
type side string

const (
	asking    side = "asks"
	answering side = "answers"
	hosting   side = "lnetd"
)

// subject returns the process in texts for users.
func (s side) subject() string {
	if s == hosting {
		return string(s)
	}
	return "who " + string(s)
}

// costs returns the costs of the asking or the answering process, which may be lnetd.
func (m *Measured) costs(s side) map[string]Spread {
	if s == asking {
		return m.Asks
	}
	return m.Answers
}

// bounded lists the costs that have bounds.
var bounded = []string{Wakeups, Syscalls, IOSyscalls, Allocs, Bells}

// scaled lists the costs that depend on how a machine wakes threads. If such a cost is higher for plain
// TCP now than when the bounds were recorded, its bound increases by the same factor.
var scaled = []string{Wakeups, Syscalls}

// margins define how far a bound is above the recorded value: by a share of the value, so that other
// machines pass, plus a minimum for values near 0. One more read or write per exchange exceeds the
// bound. One more wake-up does too, if an exchange has two or three.
var margins = map[string]struct{ share, least float64 }{
	Wakeups:    {0.25, 0.03},
	Syscalls:   {0.20, 0.03},
	IOSyscalls: {0.12, 0.03},
	Allocs:     {0.25, 0.10},
	Bells:      {0.25, 0.03},
}

// RecordBounds creates bounds from results: the upper quartile of the rounds plus a margin.
func RecordBounds(results []*Result) *Bounds {
	b := &Bounds{Bounds: map[string]map[side]map[string]float64{}, Floors: map[string]map[side]map[string]float64{}}
	for _, r := range results {
		of, floors := map[side]map[string]float64{}, map[side]map[string]float64{}
		for _, s := range []side{asking, answering} {
			of[s], floors[s] = map[string]float64{}, map[string]float64{}
			for _, name := range scaled {
				if spread, ok := r.Floor.costs(s)[name]; ok {
					floors[s][name] = math.Round(spread.Median*100) / 100
				}
			}
			for _, name := range bounded {
				if spread, ok := r.LNet.costs(s)[name]; ok {
					m := margins[name]
					of[s][name] = math.Ceil((spread.Q3*(1+m.share)+m.least)*100) / 100
				}
			}
		}
		b.Bounds[r.Case], b.Floors[r.Case] = of, floors
	}
	return b
}

// ReadBounds reads bounds from a file. It returns an error if the file names unknown cases or costs.
func ReadBounds(path string) (*Bounds, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	b := &Bounds{}
	if err := d.Decode(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// check returns an error if there are no bounds, or if one is for an unknown case, process or cost.
func (b *Bounds) check() error {
	if len(b.Bounds) == 0 {
		return errors.New("the file contains no bounds")
	}
	known := map[string]bool{}
	for _, t := range tests() {
		known[t.name] = true
	}
	for _, t := range hostedTests() {
		known[t.name] = true
	}
	for name, of := range b.Bounds {
		if !known[name] {
			return fmt.Errorf("case %q does not exist", name)
		}
		for s, costs := range of {
			if s != asking && s != answering && s != hosting {
				return fmt.Errorf("case %q: the side %q is none of asks, answers and lnetd", name, s)
			}
			for cost := range costs {
				if !slices.Contains(bounded, cost) {
					return fmt.Errorf("case %q: the cost %q cannot have a bound; costs with bounds: %s", name, cost, strings.Join(bounded, ", "))
				}
			}
		}
	}
	return nil
}

// Write writes the bounds to a file.
func (b *Bounds) Write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// scale returns the factor by which a bound is multiplied on this machine. It is at least 1.
func (b *Bounds) scale(r *Result, s side, name string) float64 {
	recorded, now := b.Floors[r.Case][s][name], r.Floor.costs(s)[name].Median
	if recorded <= 0 || now-recorded <= margins[name].least {
		return 1
	}
	return now / recorded
}

// Cases returns a regular expression that matches the names of the cases with bounds.
func (b *Bounds) Cases() *regexp.Regexp {
	var names []string
	for name := range b.Bounds {
		names = append(names, regexp.QuoteMeta(name))
	}
	slices.Sort(names)
	return regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")
}

// CompareHosted is like Compare, for the costs of the active program of an lnetd, and of lnetd.
func (b *Bounds) CompareHosted(list []*HostedResult) (above, left []string) {
	results := make([]*Result, len(list))
	for k, r := range list {
		results[k] = &Result{Case: r.Case, LNet: &Measured{Asks: r.Asks, Answers: r.Daemons}, Floor: &Measured{}}
	}
	return b.Compare(results)
}

// Compare compares results with the bounds. above describes the costs that exceed their bound, and left
// the costs that have a bound but were not counted. It compares the lower quartile of the rounds,
// because a regression raises the costs of all rounds, and a busy machine only those of some rounds.
func (b *Bounds) Compare(results []*Result) (above, left []string) {
	for _, r := range results {
		of := b.Bounds[r.Case]
		for _, s := range slices.Sorted(maps.Keys(of)) {
			for _, name := range slices.Sorted(maps.Keys(of[s])) {
				what := fmt.Sprintf("%s, %s: %s", r.Case, s.subject(), name)
				spread, ok := r.LNet.costs(s)[name]
				switch bound := of[s][name] * b.scale(r, s, name); {
				case !ok:
					left = append(left, what)
				case spread.Q1 > bound:
					above = append(above, fmt.Sprintf("%s %.2f of each exchange, at most %.2f", what, spread.Q1, bound))
				}
			}
		}
	}
	return above, left
}
