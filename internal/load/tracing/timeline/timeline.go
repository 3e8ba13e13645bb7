package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// Window is the time of one request: from Start to End, in nanoseconds of CLOCK_MONOTONIC.
type Window struct{ Start, End int64 }

// Recording is what was recorded of many requests of one kind.
type Recording struct {
	// Events are in the order of their times.
	Events []tracing.Event
	// Processes has the role of the process of each thread of interest.
	Processes map[int]string
	// Windows are the requests. They do not overlap.
	Windows []Window
}

// Timeline describes requests of one kind. Steps are the steps of the request whose time is the median. All times
// are in microseconds.
type Timeline struct {
	Name     string `json:"name"`
	Requests int    `json:"requests"`
	// Median is the time of the request that Steps describes. Q1 and Q3 are the quartiles of all requests.
	Median float64 `json:"median_us"`
	Q1     float64 `json:"q1_us"`
	Q3     float64 `json:"q3_us"`
	// Counts are the counts of the request that Steps describes.
	Counts Counts `json:"counts"`
	// Processes has the mean counts of all requests, for each process that took part, in the order in which the
	// processes first ran.
	Processes []Process `json:"processes"`
	Steps     []Step    `json:"steps"`
}

// Counts are numbers of events. In Process they are means.
type Counts struct {
	// Wakeups are wake-ups of threads that slept or were about to. HandOffs are those of them by another thread
	// of the same process.
	Wakeups  float64 `json:"wakeups"`
	HandOffs float64 `json:"handoffs"`
	// Sleeps is how often a thread stopped until it was woken. Switches also counts the times when a thread was
	// stopped although it could continue.
	Sleeps   float64 `json:"sleeps"`
	Switches float64 `json:"switches"`
	Calls    float64 `json:"syscalls"`
}

// Process has the mean counts of a process for each request.
type Process struct {
	Role string `json:"role"`
	Counts
	// ByName are the system calls by name.
	ByName map[string]float64 `json:"syscalls_by_name"`
}

// Action is what happens in a step.
type Action string

// The actions.
const (
	Call    Action = "call"    // the thread makes the system call Call
	Sleep   Action = "sleep"   // the thread stops until it is woken
	Preempt Action = "preempt" // the thread is stopped, although it could continue
	Run     Action = "run"     // the thread runs
	Wake    Action = "wake"    // the thread wakes Other
	Woken   Action = "woken"   // a timer, an interrupt or a thread of another program wakes the thread
)

// Step is something that a thread did, or that happened to it.
type Step struct {
	At     float64 `json:"at_us"` // since the start of the request
	CPU    int     `json:"cpu"`
	Thread Thread  `json:"thread"`
	Action Action  `json:"action"`
	// Other is the thread that a Wake wakes. HandOff is set if it belongs to the same process.
	Other   *Thread `json:"other,omitempty"`
	HandOff bool    `json:"handoff,omitempty"`
	// Name and Result are those of a system call. Result is empty if the end of the call was not recorded.
	Name   string `json:"name,omitempty"`
	Result string `json:"result,omitempty"`
	// For is how long a call took, or a sleep or preemption lasted, even if it ended after the request. For a Run
	// it is the time since the thread was woken or preempted. It is 0 if that was not recorded.
	For float64 `json:"for_us,omitempty"`
}

// Thread identifies a thread by the role of its process and its number there, which counts from 1 in the order in
// which threads first appear.
type Thread struct {
	Process string `json:"process"`
	Number  int    `json:"number"`
}

// String returns a text such as "lnetd/2".
func (t Thread) String() string { return fmt.Sprintf("%s/%d", t.Process, t.Number) }

// New arranges a recording. It returns an error if the recording has no requests.
func New(name string, r *Recording) (*Timeline, error) {
	if len(r.Windows) == 0 {
		return nil, fmt.Errorf("%s: no requests were recorded", name)
	}
	byTime := slices.SortedFunc(slices.Values(r.Windows), func(a, b Window) int {
		return cmp.Or(cmp.Compare(a.End-a.Start, b.End-b.Start), cmp.Compare(a.Start, b.Start))
	})
	took := func(k int) float64 { return micros(byTime[k].End - byTime[k].Start) }
	last := len(byTime) - 1
	t := &Timeline{Name: name, Requests: len(byTime), Median: took(len(byTime) / 2), Q1: took(last / 4), Q3: took(last - last/4)}
	all, base := arrange(r, r.Windows[0].Start), r.Windows[0].Start
	t.Steps = byTime[len(byTime)/2].within(all, base)
	for k := range t.Steps {
		t.Counts.add(&t.Steps[k])
	}
	t.Processes = means(r.Windows, all, base)
	return t, nil
}

func micros(ns int64) float64 { return float64(ns) / 1e3 }

// add counts a step.
func (c *Counts) add(s *Step) {
	switch s.Action {
	case Call:
		c.Calls++
	case Sleep:
		c.Sleeps++
		c.Switches++
	case Preempt:
		c.Switches++
	case Wake, Woken:
		c.Wakeups++
		if s.HandOff {
			c.HandOffs++
		}
	}
}

// means returns the mean counts of the processes. A wake-up counts for the process that is woken.
func means(windows []Window, steps []Step, base int64) []Process {
	var list []*Process
	of := map[string]*Process{}
	process := func(role string) *Process {
		if of[role] == nil {
			of[role] = &Process{Role: role, ByName: map[string]float64{}}
			list = append(list, of[role])
		}
		return of[role]
	}
	for _, w := range windows {
		for _, s := range w.within(steps, base) {
			p := process(s.Thread.Process)
			if s.Other != nil {
				p = process(s.Other.Process)
			}
			p.add(&s)
			if s.Action == Call {
				p.ByName[s.Name]++
			}
		}
	}
	var all []Process
	for _, p := range list {
		for _, v := range []*float64{&p.Wakeups, &p.HandOffs, &p.Sleeps, &p.Switches, &p.Calls} {
			*v /= float64(len(windows))
		}
		for name := range p.ByName {
			p.ByName[name] /= float64(len(windows))
		}
		all = append(all, *p)
	}
	return all
}
