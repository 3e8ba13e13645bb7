package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Destinations of messages. The low bits of the match bits are the sequence number.
const (
	putPortal = 20
	getPortal = 21
	putBits   = 1 << 60
	getBits   = 2 << 60
	seqMask   = 1<<56 - 1
)

// sender keeps a window of operations in progress. Each successful operation starts the next one
// from its handler. The pacer replaces operations that failed, and those whose answer is lost.
type sender struct {
	node     *node.Node
	to       lnet.ProcessID
	seed     uint64
	pattern  []byte
	account  *account
	findings *findings
	start    time.Time
	// settled is called with pages of which all messages have ended.
	settled func(page uint64, acked *bitmap)

	progress atomic.Int64 // end of the last successful operation; see now
	done     [kinds]atomic.Uint64
	lost     [kinds]atomic.Uint64 // no answer came in time
	failed   [kinds]atomic.Uint64 // could not be sent
	bytes    atomic.Uint64        // payload of successful operations

	mu       sync.Mutex        // guards the rest
	failures map[string]uint64 // by class
	ops      []*op             // all that exist
	idle     []*op
	sinks    [len(sinkSizes)][][]byte
	sinkMade uint64 // total bytes of all sinks
	active   int
	parked   int
	owed     int // operations for the pacer to start
	stopped  bool
	drained  chan struct{} // closed when stopped, and nothing is active
}

// sinkSizes are the sizes of the memory for GETs, which is reused.
var sinkSizes = [...]int{4096, 64 << 10, maxSize}

const (
	// parkedMax is the maximum number of operations that wait for a lost answer.
	parkedMax = 20000
	paceEvery = 10 * time.Millisecond
	scanEvery = 10 // paces
)

func newSender(n *node.Node, to lnet.ProcessID, seed uint64, pattern []byte, f *findings) *sender {
	return &sender{
		node: n, to: to, seed: seed, pattern: pattern, account: newAccount(), findings: f,
		start: time.Now(), failures: make(map[string]uint64), drained: make(chan struct{}),
	}
}

// now returns the time since the start in ns, never 0.
func (s *sender) now() int64 { return int64(time.Since(s.start)) + 1 }

// op is an operation, and the handler of its MD, whose events come one at a time. It is reused
// after its end.
type op struct {
	s    *sender
	seq  uint64
	plan plan
	md   lnet.Handle
	sink []byte // of a GET

	begun atomic.Int64 // 0: idle
	slot  atomic.Bool  // counts toward the window

	sent, failed, answered bool
}

// issue starts the next operation, unless the sender is stopped.
func (s *sender) issue() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	var o *op
	if k := len(s.idle); k > 0 {
		o = s.idle[k-1]
		s.idle = s.idle[:k-1]
	} else {
		o = &op{s: s}
		s.ops = append(s.ops, o)
	}
	o.seq = s.account.begin()
	o.plan = planOf(s.seed, o.seq)
	if o.plan.kind == fetch {
		o.sink = s.takeSink(o.plan.size)
	}
	s.active++
	s.mu.Unlock()

	o.sent, o.failed, o.answered = false, false, false
	o.slot.Store(true)
	o.begun.Store(s.now())
	seq := o.seq
	d := portals.MD{Bytes: o.plan.of(s.pattern), Threshold: 2, Unlink: true, Handler: o}
	switch o.plan.kind {
	case plainPut:
		d.Threshold = 1
	case fetch:
		d.Bytes = o.sink
	}
	h, err := s.node.Bind(d)
	if err != nil {
		s.findings.add("message %d: %v", seq, err)
		o.end()
		return
	}
	o.md = h
	if o.plan.kind == fetch {
		err = s.node.Get(h, s.to, node.GetOptions{Portal: getPortal, MatchBits: getBits | seq, Offset: uint32(o.plan.offset)})
	} else {
		err = s.node.Put(h, s.to, node.PutOptions{
			Portal: putPortal, MatchBits: putBits | seq, HdrData: seq, Ack: o.plan.kind == ackedPut})
	}
	if err != nil { // no event will come, so o can be reused
		s.findings.add("message %d: %v", seq, err)
		if err := s.node.Unlink(h); err != nil {
			s.findings.add("message %d: %v", seq, err)
		}
	}
}

// takeSink returns memory for a GET of n bytes. s.mu is held.
func (s *sender) takeSink(n int) []byte {
	class := sinkClass(n)
	if k := len(s.sinks[class]); k > 0 {
		b := s.sinks[class][k-1]
		s.sinks[class] = s.sinks[class][:k-1]
		return b[:n]
	}
	s.sinkMade += uint64(sinkSizes[class])
	return make([]byte, sinkSizes[class])[:n]
}

func sinkClass(n int) int {
	for k, size := range sinkSizes {
		if n <= size {
			return k
		}
	}
	panic("soak: sink too large")
}

// HandleEvent implements the handler of the operation's MD.
func (o *op) HandleEvent(e *portals.Event) {
	s := o.s
	if e.MD != o.md || o.begun.Load() == 0 {
		s.findings.add("%s of %s after its last event", e.Type, e.MD)
		return
	}
	switch e.Type {
	case portals.EventSend:
		if o.sent {
			s.findings.add("message %d: a second SEND", o.seq)
		}
		o.sent = true
		if e.Err != nil {
			o.failed = true
			s.noteFailure(e.Err)
			if !e.Unlinked {
				// No answer is expected, though it may come.
				if err := s.node.Unlink(e.MD); err != nil {
					s.findings.add("message %d: %v", o.seq, err)
				}
			}
		}
	case portals.EventAck, portals.EventReply:
		o.answer(e)
	case portals.EventUnlink:
	default:
		s.findings.add("message %d: unexpected %s", o.seq, e.Type)
	}
	if e.Unlinked {
		o.end()
	}
}

// answer checks an ACK or a REPLY.
func (o *op) answer(e *portals.Event) {
	s := o.s
	wanted := map[kind]bool{ackedPut: e.Type == portals.EventAck, fetch: e.Type == portals.EventReply}[o.plan.kind]
	if !wanted {
		s.findings.add("message %d: a %s to a %s", o.seq, e.Type, o.plan.kind)
	}
	if o.answered {
		s.findings.add("message %d: a second %s", o.seq, e.Type)
	}
	if e.Err != nil { // incomplete, or too late
		return
	}
	o.answered = true
	if e.Length != o.plan.size {
		s.findings.add("message %d: %s of %d bytes, want %d", o.seq, e.Type, e.Length, o.plan.size)
	} else if e.Type == portals.EventReply && !bytes.Equal(o.sink, o.plan.of(s.pattern)) {
		s.findings.add("message %d: a REPLY of %d bytes with the wrong content", o.seq, e.Length)
	}
}

// end records the operation's end. Afterwards o may be another operation.
func (o *op) end() {
	s := o.s
	if o.plan.kind != fetch && !o.sent {
		s.findings.add("message %d: ended without a SEND", o.seq)
	}
	well := o.answered || o.plan.kind == plainPut && !o.failed
	switch {
	case well:
		s.done[o.plan.kind].Add(1)
		s.bytes.Add(uint64(o.plan.size))
		s.progress.Store(s.now())
	case o.failed:
		s.failed[o.plan.kind].Add(1)
	default:
		s.lost[o.plan.kind].Add(1)
	}
	if acked := s.account.end(o.seq, o.answered && o.plan.kind == ackedPut); acked != nil {
		s.settled(o.seq/pageSize, acked)
	}
	o.begun.Store(0)
	held := o.slot.Swap(false)

	s.mu.Lock()
	if o.sink != nil {
		class := sinkClass(cap(o.sink))
		s.sinks[class] = append(s.sinks[class], o.sink)
		o.sink = nil
	}
	s.idle = append(s.idle, o)
	s.active--
	if !held {
		s.parked--
	} else if !well {
		s.owed++
	}
	s.checkDrained()
	s.mu.Unlock()
	if held && well {
		s.issue()
	}
}

// checkDrained closes drained if the sender is stopped and idle. s.mu is held.
func (s *sender) checkDrained() {
	if s.stopped && s.active == 0 {
		select {
		case <-s.drained:
		default:
			close(s.drained)
		}
	}
}

func (s *sender) noteFailure(err error) {
	class := "status " + lnd.StatusOf(err).String()
	switch {
	case errors.Is(err, node.ErrCanceled):
		class = "canceled"
	case errors.Is(err, node.ErrUnreachable):
		class = "node: unreachable"
	}
	s.mu.Lock()
	s.failures[class]++
	s.mu.Unlock()
}

// run sends until ctx ends, then waits for all operations in progress, at most for patience. It
// returns the longest time without a successful operation.
func (s *sender) run(ctx context.Context, window int, patience time.Duration) (stall time.Duration) {
	s.progress.Store(s.now())
	for range window {
		s.issue()
	}
	tick := time.NewTicker(paceEvery)
	defer tick.Stop()
	for round := 1; ctx.Err() == nil; round++ {
		select {
		case <-ctx.Done():
		case <-tick.C:
			stall = max(stall, time.Duration(s.now()-s.progress.Load()))
			s.pace(round%scanEvery == 0)
		}
	}
	s.mu.Lock()
	s.stopped = true
	s.checkDrained()
	s.mu.Unlock()
	select {
	case <-s.drained:
	case <-time.After(patience):
		s.findings.add("%s", s.leftover(patience))
	}
	return stall
}

// pace starts operations that replace failed ones, and if scan is set, those that have been in
// progress for too long.
func (s *sender) pace(scan bool) {
	s.mu.Lock()
	n := s.owed
	s.owed = 0
	if scan {
		limit := s.now() - int64(parkAfter)
		for _, o := range s.ops {
			if at := o.begun.Load(); at != 0 && at < limit && s.parked < parkedMax && o.slot.CompareAndSwap(true, false) {
				s.parked++
				n++
			}
		}
	}
	s.mu.Unlock()
	for range n {
		s.issue()
	}
}

// leftover returns a text about an operation that does not end.
func (s *sender) leftover(patience time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%d operations have not ended %v after the last was begun", s.active, patience)
	for _, o := range s.ops {
		if at := o.begun.Load(); at != 0 {
			return fmt.Sprintf("%s; one is message %d, a %s of %d bytes begun %v ago",
				text, o.seq, o.plan.kind, o.plan.size, time.Duration(s.now()-at).Round(time.Millisecond))
		}
	}
	return text
}
