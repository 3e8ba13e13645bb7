package picture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lnetd/lnetd/internal/load/perf"
)

// Results are the results of "lnetperf compare", prepared for pictures and tables.
type Results struct {
	title   string
	methods []method // in the order of their bars
	cases   []result
}

// method is a way to make the exchanges of a case.
type method struct{ name, class string }

// result is the result of one case.
type result struct {
	name, unit string
	// measured has what was measured with each method. A case may lack one.
	measured []*measured
	// goal is the goal for the figure of the first method; 0 means none. In units of time it is a maximum, otherwise
	// a minimum.
	goal float64
	// hasGoal is also set if the goal is for costs, which pictures do not show.
	hasGoal bool
	missed  []string

	// Only in tables: what precedes the figure of the second method, the ratio of the first to the second, all goals,
	// and ratios of costs, by name.
	beside string
	ratio  perf.Spread
	goals  perf.Goals
	costs  map[string]float64
}

// measured is what was measured with one method.
type measured struct {
	name    string
	figure  perf.Spread
	latency *perf.Latency
}

// document is the JSON of "lnetperf compare". With --hosted, cases have the field plain_is.
type document struct {
	Cases []json.RawMessage `json:"cases"`
}

// Read reads the JSON that "lnetperf compare --json" has printed, with or without --hosted.
func Read(r io.Reader) (*Results, error) {
	var d document
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, fmt.Errorf("results of lnetperf compare --json: %w", err)
	}
	if len(d.Cases) == 0 {
		return nil, errors.New("results of lnetperf compare --json: there are no cases")
	}
	var kind struct {
		PlainIs string `json:"plain_is"`
	}
	if err := json.Unmarshal(d.Cases[0], &kind); err != nil {
		return nil, fmt.Errorf("results of lnetperf compare --json: %w", err)
	}
	if kind.PlainIs != "" {
		return convert(d.Cases, "Programs of an lnetd", hostedMethods, hostedCase)
	}
	return convert(d.Cases, "lnetd and plain TCP", methods, plainCase)
}

var (
	methods       = []method{{"lnetd", "ours"}, {"plain TCP, the floor", "floor"}, {"plain TCP that polls, the limit", "other"}}
	hostedMethods = []method{{"lnetd", "ours"}, {"without LNet", "floor"}, {"a node in the program", "other"}}
)

// convert converts the cases of a document, which are of type T, with f.
func convert[T any](cases []json.RawMessage, title string, methods []method, f func(c *T) (result, bool)) (*Results, error) {
	r := &Results{title: title, methods: methods}
	for k, text := range cases {
		c := new(T)
		if err := json.Unmarshal(text, c); err != nil {
			return nil, fmt.Errorf("results of lnetperf compare --json: case %d: %w", k+1, err)
		}
		one, ok := f(c)
		if _, known := units[one.unit]; !ok || !known || one.name == "" {
			return nil, fmt.Errorf("results of lnetperf compare --json: case %d (%q) is not complete", k+1, one.name)
		}
		r.cases = append(r.cases, one)
	}
	return r, nil
}

func plainCase(c *perf.Result) (result, bool) {
	if c.LNet == nil || c.Floor == nil || c.Limit == nil {
		return result{name: c.Case}, false
	}
	return result{
		name: c.Case, unit: c.Unit, goal: goal(&c.Goals, c.Floor.Figure.Median), hasGoal: c.Goals != perf.Goals{AtLeast: c.AtLeast}, missed: c.Missed,
		measured: []*measured{
			{"lnetd", c.LNet.Figure, c.LNet.Latency}, {"floor", c.Floor.Figure, c.Floor.Latency}, {"limit", c.Limit.Figure, c.Limit.Latency},
		},
		ratio: c.Ratio, goals: c.Goals, costs: c.CostRatios,
	}, true
}

func hostedCase(c *perf.HostedResult) (result, bool) {
	return result{
		name: c.Case, unit: c.Unit, goal: goal(&c.Goals, c.Plain.Median), hasGoal: c.Goals != perf.Goals{AtLeast: c.AtLeast}, missed: c.Missed,
		measured: []*measured{
			{"lnetd", c.LNet, c.LNetLatency}, {c.PlainIs, c.Plain, c.PlainLatency}, {"inproc", c.Inproc, c.InprocLatency},
		},
		beside: c.PlainIs + " ", ratio: c.Ratio, goals: c.Goals,
	}, true
}

// goal returns the goal for a figure: an absolute one, or the goal for the ratio to the floor's figure.
func goal(g *perf.Goals, floor float64) float64 {
	if g.FigureGoal != 0 {
		return g.FigureGoal
	}
	return g.Goal * floor
}

// units are the units of figures in JSON, with the titles of their panels.
var units = map[string]struct{ title, format string }{
	"us":   {"Time of an exchange: shorter is better; each case has its own scale", "%.1f µs"},
	"1/s":  {"Exchanges per second: longer is better; each case has its own scale", "%.0f /s"},
	"GB/s": {"Bandwidth: longer is better; each case has its own scale", "%.2f GB/s"},
}

// panels is the order of the units in a picture.
var panels = []string{"us", "1/s", "GB/s"}

func show(unit string, v float64) string { return fmt.Sprintf(units[unit].format, v) }
