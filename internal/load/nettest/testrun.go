package nettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/internal/load/nettest/figures"
	"github.com/lnetd/lnetd/internal/load/nettest/message"
	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/selftest/latency"
	"github.com/lnetd/lnetd/transport"
)

const (
	// tickTime is the interval at which time limits are checked and failed transfers are started again.
	tickTime = 50 * time.Millisecond
	// failuresMax is the number of consecutive failures after which a slot sends no more messages or
	// transfers.
	failuresMax = 5
	// spareBuffers is the number of receive buffers in addition to those for messages in flight. They
	// receive messages while full buffers wait to be processed.
	spareBuffers = 2
	// memoryMax is the maximum memory in bytes for the buffers of a test on a node.
	memoryMax = 1 << 30
	// pageSize is the unit in which memory of buffers is allocated.
	pageSize = 4096
	// stopTime is the time limit for stopping a test on a node.
	stopTime = 10 * time.Second
)

// role is what a node does in a test: ping or bulk, as client or server. All methods except prepare are
// called with testRun.mu held.
type role interface {
	// prepare creates the buffers and queues the receive buffers.
	prepare(ctx context.Context) error
	// begin starts the transfers.
	begin()
	// tick is called every tickTime after begin.
	tick(now time.Time)
	// flush is called after callbacks, to do work that was collected for several of them.
	flush()
	// finished reports whether the node has ended its part of the test.
	finished() bool
	// end releases end points. No other method is called afterwards.
	end()
}

// testRun is a test on one node: its transfer machine for data, buffers and figures.
type testRun struct {
	test   message.Test
	domain *transport.Domain
	loop   *tmhost.Loop
	role   role

	roundTrips latency.Recorder
	ticks      chan struct{} // closed to end the goroutine of tick
	ended      chan struct{} // closed when the goroutine of tick has ended

	mu      sync.Mutex // guards the rest, and the role's state
	buffers []*transport.Buffer
	memory  int
	figures figures.Figures
	begun   time.Time
	sampled sample
	stopped bool
}

// sample has the time and the counters of the last computation of rates.
type sample struct {
	at             time.Time
	sent, received uint64
}

// newTestRun starts the transfer machine for the data of a test, and prepares the role. The test must
// have passed Check. It returns ECONNREFUSED if the machine cannot start.
func newTestRun(ctx context.Context, d *transport.Domain, test message.Test) (*testRun, error) {
	delivery, err := tmhost.ParseDelivery(test.Delivery)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", syscall.EINVAL, err)
	}
	t := &testRun{test: test, domain: d, ticks: make(chan struct{}), ended: make(chan struct{})}
	switch {
	case test.Kind == message.Ping && test.Role == message.Client:
		t.role = &pingClient{clientWork: clientWork{testRun: t}}
	case test.Kind == message.Ping:
		t.role = &pingServer{testRun: t}
	case test.Role == message.Client:
		t.role = &bulkClient{clientWork: clientWork{testRun: t}}
	default:
		t.role = &bulkServer{testRun: t}
	}
	if err := t.checkSizes(); err != nil {
		return nil, err
	}
	t.loop, err = tmhost.Start(ctx, d, test.Data, delivery, t.afterRound)
	if err != nil {
		return nil, fmt.Errorf("open the data end point %s: %[3]w (%[2]w)", test.Data, syscall.ECONNREFUSED, err)
	}
	if err := t.role.prepare(ctx); err != nil {
		close(t.ended)
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return nil, errors.Join(err, t.stop(ctx))
	}
	return t, nil
}

// checkSizes returns EINVAL if buffers are larger than the domain allows, or ENOMEM if the test needs
// more than memoryMax.
func (t *testRun) checkSizes() error {
	most := t.domain.Limits().BufferSize
	if t.test.Size > most || t.test.Kind == message.Bulk && t.test.BufferSize > most {
		return fmt.Errorf("size of data, %d bytes, or of messages with descriptors, %d bytes, is more than %d: %w", t.test.Size, t.test.BufferSize, most, syscall.EINVAL)
	}
	// Each role has at least two buffers per concurrent message or transfer, except a bulk server, which
	// has one.
	if n := t.test.Concurrency * len(t.test.Peers); n > memoryMax/2/bufferMemory(t.test.Size) {
		return errTooMuch
	}
	return nil
}

// bufferMemory returns the memory in bytes of a buffer of the given size: whole pages.
func bufferMemory(size int) int { return (size + pageSize - 1) &^ (pageSize - 1) }

// errTooMuch is the error for a test that needs more than memoryMax.
var errTooMuch = fmt.Errorf("the test needs more than %d bytes of buffers: %w", memoryMax, syscall.ENOMEM)

// newBuffer creates a buffer, which stop frees. It returns ENOMEM if the buffers of the test would
// exceed memoryMax.
func (t *testRun) newBuffer(ctx context.Context, size int, callbacks *transport.Callbacks) (*transport.Buffer, error) {
	if t.memory+bufferMemory(size) > memoryMax {
		return nil, errTooMuch
	}
	b, err := t.domain.Buffer(ctx, size)
	if err != nil {
		return nil, err
	}
	t.memory += bufferMemory(size)
	t.buffers = append(t.buffers, b)
	b.Callbacks = callbacks
	return b, nil
}

// perBuffer returns the number of messages of up to size bytes that a receive buffer holds: the number
// in the test, or fewer if the maximum buffer size has no room for them.
func (t *testRun) perBuffer(size int) int {
	return max(min(t.test.Messages, t.domain.Limits().BufferSize/size, transport.MostMessages), 1)
}

// receiveMessages creates and queues enough receive buffers for n concurrent messages of up to size
// bytes.
func (t *testRun) receiveMessages(ctx context.Context, n, size int, callbacks *transport.Callbacks) error {
	messages := t.perBuffer(size)
	for range (n+messages-1)/messages + spareBuffers {
		b, err := t.newBuffer(ctx, size*messages, callbacks)
		if err != nil {
			return err
		}
		b.MinReceiveSize, b.MaxMessages = size, messages
		b.Queue = transport.MsgRecv
		if err := t.loop.TM.Add(b); err != nil {
			return err
		}
	}
	return nil
}

// receiveAgain queues a receive buffer again. It does nothing if the test was stopped.
func (t *testRun) receiveAgain(b *transport.Buffer) {
	if t.stopped {
		return
	}
	b.Queue, b.EndPoint, b.Deadline = transport.MsgRecv, nil, time.Time{}
	if err := t.loop.TM.Add(b); err != nil {
		t.figures.Received.Total++
		t.figures.Received.Failed++
	}
}

// locked returns a callback that calls f with t.mu held. The callback does nothing after the test was
// stopped.
func (t *testRun) locked(f func(e *transport.BufferEvent)) func(e *transport.BufferEvent) {
	return func(e *transport.BufferEvent) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.stopped {
			return
		}
		f(e)
		if t.loop.Delivery == tmhost.Async {
			t.role.flush()
		}
	}
}

// afterRound is called by the loop after each round of callbacks.
func (t *testRun) afterRound() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.stopped {
		t.role.flush()
	}
}

// count counts an attempt, and a failure if err is not nil.
func count(c *figures.Counter, err error) {
	c.Total++
	if err != nil {
		c.Failed++
	}
}

// start starts the test, which must not have been started.
func (t *testRun) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = time.Now()
	t.sampled.at = t.begun
	t.role.begin()
	t.role.flush()
	go t.tick()
}

// started reports whether the test was started.
func (t *testRun) started() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.begun.IsZero()
}

// timeOver reports whether the time of the test is over or the test was stopped.
func (t *testRun) timeOver(now time.Time) bool {
	return t.stopped || t.test.Time > 0 && now.Sub(t.begun) >= t.test.Time
}

// tick calls the role's tick every tickTime, and takes a sample of the rates each second. It returns
// when t.ticks is closed.
func (t *testRun) tick() {
	defer close(t.ended)
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			t.mu.Lock()
			if !t.stopped {
				t.role.tick(now)
				t.role.flush()
			}
			if now.Sub(t.sampled.at) >= time.Second && !t.figures.Finished {
				t.sample(now)
			}
			t.mu.Unlock()
		case <-t.ticks:
			return
		}
	}
}

// sample adds the rates since the last sample to the figures.
func (t *testRun) sample(now time.Time) {
	seconds := now.Sub(t.sampled.at).Seconds()
	if seconds <= 0 {
		return
	}
	f := &t.figures
	f.SentRate.Add(uint64(float64(f.Sent.Total-t.sampled.sent) / seconds))
	f.ReceivedRate.Add(uint64(float64(f.Received.Total-t.sampled.received) / seconds))
	t.sampled = sample{at: now, sent: f.Sent.Total, received: f.Received.Total}
}

// roundTrip records a round trip that began at the given time and ends now.
func (t *testRun) roundTrip(begun time.Time) {
	d := max(time.Since(begun), 0)
	t.figures.RTT.Add(uint64(d))
	t.roundTrips.Record(d)
}

// report returns the figures so far. It sets Finished in them if the role has finished.
func (t *testRun) report() figures.Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun.IsZero() && t.role.finished() && !t.figures.Finished {
		t.figures.Finished = true
		if t.figures.SentRate.Count == 0 {
			t.sample(time.Now()) // the test took less than a second
		}
	}
	f := t.figures
	t.roundTrips.AddTo(&f.Latency.Histogram)
	return f
}

// stop stops the test, closes its transfer machine and frees its buffers. A second call does nothing.
func (t *testRun) stop(ctx context.Context) error {
	t.mu.Lock()
	stopped := t.stopped
	t.stopped = true
	begun := !t.begun.IsZero()
	if !stopped {
		t.role.end()
	}
	t.mu.Unlock()
	if stopped {
		return nil
	}
	close(t.ticks)
	if begun {
		<-t.ended
	}
	if err := t.loop.Close(ctx); err != nil {
		return err
	}
	var errs []error
	for _, b := range t.buffers {
		errs = append(errs, t.domain.Free(b))
	}
	return errors.Join(errs...)
}
