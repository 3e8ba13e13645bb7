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

// request is a request.
type request struct {
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

// response is the answer to a request.
type response struct {
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

func (p *Process) call(a request) (response, error) {
	if err := p.in.Encode(a); err != nil {
		return response{}, fmt.Errorf("ask a process to %s: %w", a.Do, err)
	}
	var t response
	if err := p.out.Decode(&t); err != nil {
		return response{}, fmt.Errorf("answer of a process asked to %s: %w", a.Do, err)
	}
	if t.Error != "" {
		return response{}, errors.New(t.Error)
	}
	return t, nil
}

// answer calls f for each request in r until r ends or ctx is done, and writes its results to w.
func answer(ctx context.Context, r io.Reader, w io.Writer, f func(a request) (response, error)) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	for ctx.Err() == nil {
		var a request
		if err := in.Decode(&a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		t, err := f(a)
		if err != nil {
			t = response{Error: err.Error()}
		}
		if err := out.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

// ServeCosts answers the requests to a passive process until r ends.
func ServeCosts(ctx context.Context, r io.Reader, w io.Writer) (err error) {
	m, err := newMeter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	return answer(ctx, r, w, func(a request) (t response, err error) {
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
	_, err := p.call(request{Do: doCount, Calls: calls})
	return err
}

func (p *Process) end() (Cost, error) {
	t, err := p.call(request{Do: doTell})
	return t.Cost, err
}

// memoryInUse returns the memory in use by a passive process.
func (p *Process) memoryInUse() (bytes int, err error) {
	t, err := p.call(request{Do: doWeigh})
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

// benchPair is a pair of processes that exchange messages: this process and a passive one, or two other ones,
// of which this process controls the active one.
type benchPair interface {
	// open prepares a case. The previous case must be closed.
	open(ctx context.Context, name string) error
	// run makes n exchanges of the case.
	run(ctx context.Context, leg Leg, n int, calls bool) (Round, error)
	close(ctx context.Context) error
}

// remotePair is an arm of other processes.
type remotePair struct{ *Process }

func (w remotePair) open(_ context.Context, name string) error {
	_, err := w.call(request{Do: doOpen, Case: name})
	return err
}

func (w remotePair) run(_ context.Context, leg Leg, n int, calls bool) (Round, error) {
	t, err := w.call(request{Do: doRun, Leg: leg, N: n, Calls: calls})
	if err == nil && t.Round == nil {
		err = errors.New("a process says nothing of its round")
	}
	if err != nil {
		return Round{}, err
	}
	return *t.Round, nil
}

func (w remotePair) close(context.Context) error {
	_, err := w.call(request{Do: doClose})
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
	return answer(ctx, r, w, func(a request) (response, error) {
		switch a.Do {
		case doOpen:
			return response{}, b.open(ctx, a.Case)
		case doRun:
			round, err := b.run(ctx, a.Leg, a.N, a.Calls)
			return response{Round: &round}, err
		case doClose:
			return response{}, b.close(ctx)
		}
		return response{}, fmt.Errorf("nobody can %q here", a.Do)
	})
}
