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

// Bounds are what exchanges may cost: counts, which a busy machine changes less than times.
type Bounds struct {
	// Bounds are those of cases by name, of both processes by the names of Cost.
	Bounds map[string]map[side]map[string]float64 `json:"bounds"`
	// Floors are what plain TCP had cost meanwhile, of those in scaled.
	Floors map[string]map[side]map[string]float64 `json:"floors,omitempty"`
}

// side is one of both processes.
type side string

const (
	asking    side = "asks"
	answering side = "answers"
)

// costs are those of a side.
func (m *Measured) costs(s side) map[string]Spread {
	if s == asking {
		return m.Asks
	}
	return m.Answers
}

// bounded are the costs that have bounds.
var bounded = []string{Wakeups, Syscalls, IOSyscalls, Allocs}

// scaled are those that depend on how machines wake threads. Where plain TCP costs more of
// them than it did when bounds were recorded, these are as much higher.
var scaled = []string{Wakeups, Syscalls}

// margins are what a bound is above what was measured: a share of it, so that another machine
// passes, and yet some more, for what is next to nothing. One read or write more in each
// exchange is above the bound, as is one wake-up of two or three.
var margins = map[string]struct{ share, least float64 }{
	Wakeups:    {0.25, 0.03},
	Syscalls:   {0.20, 0.03},
	IOSyscalls: {0.12, 0.03},
	Allocs:     {0.25, 0.10},
}

// RecordBounds makes bounds of what was measured: of the upper quartile of the rounds.
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

// ReadBounds reads a file.
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

// check says what nothing could be compared with.
func (b *Bounds) check() error {
	if len(b.Bounds) == 0 {
		return errors.New("it has no bounds")
	}
	known := map[string]bool{}
	for _, t := range tests() {
		known[t.name] = true
	}
	for name, of := range b.Bounds {
		if !known[name] {
			return fmt.Errorf("there is no case %q", name)
		}
		for s, costs := range of {
			if s != asking && s != answering {
				return fmt.Errorf("%s: %q is neither asks nor answers", name, s)
			}
			for cost := range costs {
				if !slices.Contains(bounded, cost) {
					return fmt.Errorf("%s: %q has no bounds; these have: %s", name, cost, strings.Join(bounded, ", "))
				}
			}
		}
	}
	return nil
}

// Write writes a file.
func (b *Bounds) Write(path string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// scale is by how much a bound is higher on this machine, 1 or more.
func (b *Bounds) scale(r *Result, s side, name string) float64 {
	recorded, now := b.Floors[r.Case][s][name], r.Floor.costs(s)[name].Median
	if recorded <= 0 || now-recorded <= margins[name].least {
		return 1
	}
	return now / recorded
}

// Cases matches the names of those that have bounds.
func (b *Bounds) Cases() *regexp.Regexp {
	var names []string
	for name := range b.Bounds {
		names = append(names, regexp.QuoteMeta(name))
	}
	slices.Sort(names)
	return regexp.MustCompile("^(?:" + strings.Join(names, "|") + ")$")
}

// Compare says what is above its bound, and what has a bound but was not counted. What counts
// is the lower quartile of the rounds: what has become dearer is dearer in all of them, and
// what a busy machine adds is not.
func (b *Bounds) Compare(results []*Result) (above, left []string) {
	for _, r := range results {
		of := b.Bounds[r.Case]
		for _, s := range slices.Sorted(maps.Keys(of)) {
			for _, name := range slices.Sorted(maps.Keys(of[s])) {
				what := fmt.Sprintf("%s, who %s: %s", r.Case, s, name)
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
