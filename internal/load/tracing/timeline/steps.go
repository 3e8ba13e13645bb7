package timeline

import (
	"cmp"
	"slices"

	"github.com/lnetd/lnetd/internal/load/tracing"
)

// thread is the state of a thread while its steps are arranged. The indexes of steps are -1 for none.
type thread struct {
	name    Thread
	call    int   // the step of the system call in progress
	stopped int   // the step with which the thread stopped
	ready   int64 // when the thread was woken or preempted; 0: unknown
}

// arranger converts the events of a recording to steps, whose times begin with base.
type arranger struct {
	processes map[int]string
	base      int64
	threads   map[int]*thread
	numbers   map[string]int // threads of each process that have a number
	steps     []Step
}

// arrange returns the steps of a recording. Their times count from base.
func arrange(r *Recording, base int64) []Step {
	a := &arranger{processes: r.Processes, base: base, threads: map[int]*thread{}, numbers: map[string]int{}}
	for k := range r.Events {
		a.event(&r.Events[k])
	}
	return a.steps
}

// within returns a copy of the steps of one request. Their times count from its start. base is that of steps.
func (w Window) within(steps []Step, base int64) []Step {
	start := micros(w.Start - base)
	byTime := func(s Step, at float64) int { return cmp.Compare(s.At, at) }
	from, _ := slices.BinarySearchFunc(steps, start, byTime)
	to, _ := slices.BinarySearchFunc(steps, micros(w.End-base), byTime)
	list := slices.Clone(steps[from:max(from, to)])
	for k := range list {
		list[k].At -= start
	}
	return list
}

// thread returns the thread with a number, or nil if it belongs to no process of interest.
func (a *arranger) thread(tid int) *thread {
	if t := a.threads[tid]; t != nil {
		return t
	}
	role, ok := a.processes[tid]
	if !ok {
		return nil
	}
	a.numbers[role]++
	t := &thread{name: Thread{role, a.numbers[role]}, call: -1, stopped: -1}
	a.threads[tid] = t
	return t
}

// add adds a step of a thread and returns its index.
func (a *arranger) add(e *tracing.Event, t *thread, s Step) int {
	s.At, s.CPU, s.Thread = micros(e.At-a.base), e.CPU, t.name
	a.steps = append(a.steps, s)
	return len(a.steps) - 1
}

func (a *arranger) event(e *tracing.Event) {
	switch e.Kind {
	case tracing.Switch:
		a.switched(e)
	case tracing.Wake:
		a.woken(e)
	case tracing.Enter:
		if t := a.thread(e.TID); t != nil {
			t.call = a.add(e, t, Step{Action: Call, Name: callName(e.Call)})
		}
	case tracing.Exit:
		a.returned(e)
	}
}

func (a *arranger) switched(e *tracing.Event) {
	if t := a.thread(e.TID); t != nil {
		action := Preempt
		t.ready = e.At
		if e.Asleep {
			action, t.ready = Sleep, 0
		}
		t.stopped = a.add(e, t, Step{Action: action})
	}
	t := a.thread(e.Other)
	if t == nil {
		return
	}
	s := Step{Action: Run}
	if t.ready != 0 {
		s.For = micros(e.At - t.ready)
	}
	k := a.add(e, t, s)
	if t.stopped >= 0 {
		a.steps[t.stopped].For = a.steps[k].At - a.steps[t.stopped].At
	}
	t.stopped, t.ready = -1, 0
}

func (a *arranger) woken(e *tracing.Event) {
	t := a.thread(e.Other)
	if t == nil {
		return
	}
	t.ready = e.At
	by := a.thread(e.TID)
	if by == nil {
		a.add(e, t, Step{Action: Woken})
		return
	}
	other := t.name
	a.add(e, by, Step{Action: Wake, Other: &other, HandOff: other.Process == by.name.Process})
}

// returned handles the end of a system call. A call that began before the recording is not a step.
func (a *arranger) returned(e *tracing.Event) {
	t := a.thread(e.TID)
	if t == nil || t.call < 0 {
		return
	}
	s := &a.steps[t.call]
	s.Result, s.For = resultText(e.Result), micros(e.At-a.base)-s.At
	t.call = -1
}
