package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/lnetd/lnetd/selftest/latency"
)

// The processes of a measurement are controlled through their standard input and output. Each request
// and each response is one line of JSON.

// request is a request to a passive or active process.
type request struct {
	Do     string `json:"do"`
	Case   string `json:"case,omitempty"`
	Method Method `json:"leg,omitempty"`
	N      int    `json:"n,omitempty"`
	Calls  bool   `json:"calls,omitempty"` // count only system calls, of all kinds
}

// The requests. The first three are for a passive process: start counting costs, return the costs, and
// return the memory in use. The others are for an active process: the methods of benchPair.
const (
	doBeginCosts = "count"
	doEndCosts   = "tell"
	doMemory     = "weigh"
	doOpen       = "open"
	doRun        = "run"
	doClose      = "close"
)

// response is the response to a request.
type response struct {
	Error string `json:"error,omitempty"`
	Cost  Cost   `json:"cost,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
	Round *Round `json:"round,omitempty"`
}

// Process controls another process through two pipes. It must not be used concurrently.
type Process struct {
	in  *json.Encoder
	out *json.Decoder
}

// NewProcess returns a Process that writes requests to w and reads responses from r.
func NewProcess(r io.Reader, w io.Writer) *Process {
	return &Process{json.NewEncoder(w), json.NewDecoder(r)}
}

func (p *Process) call(a request) (response, error) {
	if err := p.in.Encode(a); err != nil {
		return response{}, fmt.Errorf("send the request %q to a measurement process: %w", a.Do, err)
	}
	var t response
	if err := p.out.Decode(&t); err != nil {
		return response{}, fmt.Errorf("read the answer of a measurement process to %q: %w", a.Do, err)
	}
	if t.Error != "" {
		return response{}, errors.New(t.Error)
	}
	return t, nil
}

// serveRequests calls f for each request that it reads from r, and writes the response or the error to
// w. It returns when r ends or ctx is done.
func serveRequests(ctx context.Context, r io.Reader, w io.Writer, f func(a request) (response, error)) error {
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

// ServeCosts answers requests for the costs of this passive process. It reads them from r, writes
// responses to w, and returns when r ends.
func ServeCosts(ctx context.Context, r io.Reader, w io.Writer) (err error) {
	m, err := newMeter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	return serveRequests(ctx, r, w, func(a request) (t response, err error) {
		switch a.Do {
		case doBeginCosts:
			return t, m.begin(a.Calls)
		case doEndCosts:
			t.Cost, err = m.end()
			return t, err
		case doMemory:
			t.Bytes = inUse()
			return t, nil
		}
		return t, fmt.Errorf("this measurement process does not know the request %q", a.Do)
	})
}

// beginCosts and endCosts control the meter of a passive process.
func (p *Process) beginCosts(calls bool) error {
	_, err := p.call(request{Do: doBeginCosts, Calls: calls})
	return err
}

func (p *Process) endCosts() (Cost, error) {
	t, err := p.call(request{Do: doEndCosts})
	return t.Cost, err
}

// memoryInUse returns the memory in bytes that a passive process uses.
func (p *Process) memoryInUse() (bytes int, err error) {
	t, err := p.call(request{Do: doMemory})
	return t.Bytes, err
}

// inUse returns the bytes of heap and stacks in use by this process, after a garbage collection.
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
	// Latency has the time of each exchange, if the unit of the case is time. LNet selftest does not report it.
	Latency *latency.Histogram `json:"latency,omitempty"`
}

// benchPair is an active and a passive process that exchange messages. The active one is this process
// (bench) or another one that this process controls (remotePair).
type benchPair interface {
	// open prepares a case. The previous case must be closed.
	open(ctx context.Context, name string) error
	// run makes n exchanges of the open case with a method. With calls, it only counts system calls.
	run(ctx context.Context, method Method, n int, calls bool) (Round, error)
	close(ctx context.Context) error
}

// remotePair is a benchPair whose active process is another process that runs Perform.
type remotePair struct{ *Process }

func (w remotePair) open(_ context.Context, name string) error {
	_, err := w.call(request{Do: doOpen, Case: name})
	return err
}

func (w remotePair) run(_ context.Context, method Method, n int, calls bool) (Round, error) {
	t, err := w.call(request{Do: doRun, Method: method, N: n, Calls: calls})
	if err == nil && t.Round == nil {
		err = errors.New("the answer of a measurement process contains no round")
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

// Perform runs the active process of a remotePair. It reads requests from r, writes responses to w, and
// returns when r ends. It calls ready when it has started.
func Perform(ctx context.Context, c Config, r io.Reader, w io.Writer, ready func()) (err error) {
	b, err := startBench(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	ready()
	return serveRequests(ctx, r, w, func(a request) (response, error) {
		switch a.Do {
		case doOpen:
			return response{}, b.open(ctx, a.Case)
		case doRun:
			round, err := b.run(ctx, a.Method, a.N, a.Calls)
			return response{Round: &round}, err
		case doClose:
			return response{}, b.close(ctx)
		}
		return response{}, fmt.Errorf("this measurement process does not know the request %q", a.Do)
	})
}
