package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// The processes of a measurement are controlled through standard input and output. A request and its
// answer are one line of JSON each.

// ask is a request.
type ask struct {
	Do    string `json:"do"`
	Case  string `json:"case,omitempty"`
	Leg   Leg    `json:"leg,omitempty"`
	N     int    `json:"n,omitempty"`
	Calls bool   `json:"calls,omitempty"` // count system calls of all kinds, and nothing else
}

// The requests. A passive process counts. An active process does what arm specifies.
const (
	doCount = "count"
	doTell  = "tell"
	doWeigh = "weigh"
	doOpen  = "open"
	doRun   = "run"
	doClose = "close"
)

// told is the answer to a request.
type told struct {
	Error string `json:"error,omitempty"`
	Cost  Cost   `json:"cost,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	Round *Round `json:"round,omitempty"`
}

// Process is another process, at the other end of two pipes. It must not be used concurrently.
type Process struct {
	in  *json.Encoder
	out *json.Decoder
}

// NewProcess returns the process that reads w and writes r.
func NewProcess(r io.Reader, w io.Writer) *Process {
	return &Process{json.NewEncoder(w), json.NewDecoder(r)}
}

func (p *Process) ask(a ask) (told, error) {
	if err := p.in.Encode(a); err != nil {
		return told{}, fmt.Errorf("ask a process to %s: %w", a.Do, err)
	}
	var t told
	if err := p.out.Decode(&t); err != nil {
		return told{}, fmt.Errorf("answer of a process asked to %s: %w", a.Do, err)
	}
	if t.Error != "" {
		return told{}, errors.New(t.Error)
	}
	return t, nil
}

// answer calls f for each request in r until r ends or ctx is done, and writes its results to w.
func answer(ctx context.Context, r io.Reader, w io.Writer, f func(a ask) (told, error)) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	for ctx.Err() == nil {
		var a ask
		if err := in.Decode(&a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		t, err := f(a)
		if err != nil {
			t = told{Error: err.Error()}
		}
		if err := out.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

// TellCosts answers the requests to a passive process until r ends.
func TellCosts(ctx context.Context, r io.Reader, w io.Writer) (err error) {
	m, err := newMeter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	return answer(ctx, r, w, func(a ask) (t told, err error) {
		switch a.Do {
		case doCount:
			return t, m.begin(a.Calls)
		case doTell:
			t.Cost, err = m.end()
			return t, err
		case doWeigh:
			t.Bytes = inUse()
			return t, nil
		}
		return t, fmt.Errorf("nobody can %q here", a.Do)
	})
}

// begin and end control the meter of a passive process.
func (p *Process) begin(calls bool) error {
	_, err := p.ask(ask{Do: doCount, Calls: calls})
	return err
}

func (p *Process) end() (Cost, error) {
	t, err := p.ask(ask{Do: doTell})
	return t.Cost, err
}

// weigh returns the memory in use by a passive process.
func (p *Process) weigh() (bytes int, err error) {
	t, err := p.ask(ask{Do: doWeigh})
	return t.Bytes, err
}

// inUse returns the memory that Go uses in this process, without garbage.
func inUse() int {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc + s.StackInuse)
}

// Round is the result of one round of a case.
type Round struct {
	Took time.Duration `json:"took_ns"`
	// Asks and Answers are the costs of each exchange in the active and the passive process.
	Asks    Cost `json:"asks,omitempty"`
	Answers Cost `json:"answers,omitempty"`
}

// arm is a pair of processes that exchange messages: this process and a passive one, or two other ones,
// of which this process controls the active one.
type arm interface {
	// open prepares a case. The previous case must be closed.
	open(ctx context.Context, name string) error
	// run makes n exchanges of the case.
	run(ctx context.Context, leg Leg, n int, calls bool) (Round, error)
	close(ctx context.Context) error
}

// away is an arm of other processes.
type away struct{ *Process }

func (w away) open(_ context.Context, name string) error {
	_, err := w.ask(ask{Do: doOpen, Case: name})
	return err
}

func (w away) run(_ context.Context, leg Leg, n int, calls bool) (Round, error) {
	t, err := w.ask(ask{Do: doRun, Leg: leg, N: n, Calls: calls})
	if err == nil && t.Round == nil {
		err = errors.New("a process says nothing of its round")
	}
	if err != nil {
		return Round{}, err
	}
	return *t.Round, nil
}

func (w away) close(context.Context) error {
	_, err := w.ask(ask{Do: doClose})
	return err
}

// Perform is the active process of an arm. It executes requests until r ends. ready is called when it has
// started.
func Perform(ctx context.Context, c Config, r io.Reader, w io.Writer, ready func()) (err error) {
	b, err := startBench(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	ready()
	return answer(ctx, r, w, func(a ask) (told, error) {
		switch a.Do {
		case doOpen:
			return told{}, b.open(ctx, a.Case)
		case doRun:
			round, err := b.run(ctx, a.Leg, a.N, a.Calls)
			return told{Round: &round}, err
		case doClose:
			return told{}, b.close(ctx)
		}
		return told{}, fmt.Errorf("nobody can %q here", a.Do)
	})
}
