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

// Portals and match bits of messages. The low 56 bits of the match bits are the sequence number.
const (
	putPortal = 20
	getPortal = 21
	putBits   = 1 << 60
	getBits   = 2 << 60
	seqMask   = 1<<56 - 1
)

// sender keeps a window of operations in progress. When an operation succeeds, its handler starts the
// next one. run starts an operation for each that failed, and for each whose answer is probably lost.
type sender struct {
	node     *node.Node
	to       lnet.ProcessID
	seed     uint64
	pattern  []byte
	record   *sentRecord
	findings *findings
	start    time.Time
	// pageEnded is called with a page and its acknowledged messages when all messages of the page have
	// ended.
	pageEnded func(page uint64, acked *bitmap)

	progress atomic.Int64 // value of now at the end of the last successful operation
	done     [kinds]atomic.Uint64
	lost     [kinds]atomic.Uint64 // operations without an answer in time
	failed   [kinds]atomic.Uint64 // operations that could not be sent
	bytes    atomic.Uint64        // payload of successful operations

	mu        sync.Mutex        // guards the rest
	failures  map[string]uint64 // by class of the error
	ops       []*op             // all operations, idle or in progress
	idle      []*op
	sinks     [len(sinkSizes)][][]byte
	sinkBytes uint64 // total bytes of all sinks
	active    int
	parked    int
	toStart   int // number of operations that pace must start
	stopped   bool
	drained   chan struct{} // closed when the sender is stopped and no operation is in progress
}

// sinkSizes are the sizes of sinks, the memory for GETs. Sinks are reused.
var sinkSizes = [...]int{4096, 64 << 10, maxSize}

const (
	// parkedMax is the maximum number of operations outside the window, which wait for an answer that is
	// probably lost.
	parkedMax = 20000
	paceEvery = 10 * time.Millisecond
	scanEvery = 10 // every scanEvery-th call of pace looks for lost answers
)

func newSender(n *node.Node, to lnet.ProcessID, seed uint64, pattern []byte, f *findings) *sender {
	return &sender{
		node: n, to: to, seed: seed, pattern: pattern, record: newSentRecord(), findings: f,
		start: time.Now(), failures: make(map[string]uint64), drained: make(chan struct{}),
	}
}

// now returns the time since the start in nanoseconds plus 1, so that it is never 0.
func (s *sender) now() int64 { return int64(time.Since(s.start)) + 1 }

// op is an operation and the handler of its MD. It is reused for another operation after its end.
type op struct {
	s    *sender
	seq  uint64
	plan plan
	md   lnet.Handle
	sink []byte // memory of a GET

	begun    atomic.Int64 // value of now at the start; 0: not in progress
	inWindow atomic.Bool  // the operation counts toward the window

	sent, failed, answered bool
}

// startNext starts an operation. It does nothing if the sender is stopped.
func (s *sender) startNext() {
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
	o.seq = s.record.begin()
	o.plan = planOf(s.seed, o.seq)
	if o.plan.kind == fetch {
		o.sink = s.takeSink(o.plan.size)
	}
	s.active++
	s.mu.Unlock()

	o.sent, o.failed, o.answered = false, false, false
	o.inWindow.Store(true)
	o.begun.Store(s.now())
	seq := o.seq
	d := portals.MD{Bytes: o.plan.payload(s.pattern), Threshold: 2, Unlink: true, Handler: o}
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
	if err != nil { // no SEND event will come; Unlink causes the last event, which ends o
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
	s.sinkBytes += uint64(sinkSizes[class])
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

// HandleEvent implements portals.Handler.
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
				// Do not wait for an answer, although one may still come.
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
	if e.Err != nil { // the answer is incomplete or came too late
		return
	}
	o.answered = true
	if e.Length != o.plan.size {
		s.findings.add("message %d: %s of %d bytes, want %d", o.seq, e.Type, e.Length, o.plan.size)
	} else if e.Type == portals.EventReply && !bytes.Equal(o.sink, o.plan.payload(s.pattern)) {
		s.findings.add("message %d: a REPLY of %d bytes with the wrong content", o.seq, e.Length)
	}
}

// end records the end of the operation, and starts the next one if this one succeeded within the window.
// The caller must not use o afterwards, because it may be reused.
func (o *op) end() {
	s := o.s
	if o.plan.kind != fetch && !o.sent {
		s.findings.add("message %d: ended without a SEND", o.seq)
	}
	succeeded := o.answered || o.plan.kind == plainPut && !o.failed
	switch {
	case succeeded:
		s.done[o.plan.kind].Add(1)
		s.bytes.Add(uint64(o.plan.size))
		s.progress.Store(s.now())
	case o.failed:
		s.failed[o.plan.kind].Add(1)
	default:
		s.lost[o.plan.kind].Add(1)
	}
	if acked := s.record.end(o.seq, o.answered && o.plan.kind == ackedPut); acked != nil {
		s.pageEnded(o.seq/pageSize, acked)
	}
	o.begun.Store(0)
	wasInWindow := o.inWindow.Swap(false)

	s.mu.Lock()
	if o.sink != nil {
		class := sinkClass(cap(o.sink))
		s.sinks[class] = append(s.sinks[class], o.sink)
		o.sink = nil
	}
	s.idle = append(s.idle, o)
	s.active--
	if !wasInWindow {
		s.parked--
	} else if !succeeded {
		s.toStart++
	}
	s.checkDrained()
	s.mu.Unlock()
	if wasInWindow && succeeded {
		s.startNext()
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

// run keeps window operations in progress until ctx is done. Then it waits up to patience for them to
// end; it is a violation if they do not. It returns the longest time without a successful operation.
func (s *sender) run(ctx context.Context, window int, patience time.Duration) (stall time.Duration) {
	s.progress.Store(s.now())
	for range window {
		s.startNext()
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
		s.findings.add("%s", s.describeUnfinished(patience))
	}
	return stall
}

// pace starts an operation for each that failed. If scan is set, it also starts one for each that has
// been in progress for longer than lostAfter, which then no longer counts toward the window.
func (s *sender) pace(scan bool) {
	s.mu.Lock()
	n := s.toStart
	s.toStart = 0
	if scan {
		limit := s.now() - int64(lostAfter)
		for _, o := range s.ops {
			if at := o.begun.Load(); at != 0 && at < limit && s.parked < parkedMax && o.inWindow.CompareAndSwap(true, false) {
				s.parked++
				n++
			}
		}
	}
	s.mu.Unlock()
	for range n {
		s.startNext()
	}
}

// describeUnfinished returns a text with the number of operations that have not ended, and a description
// of one of them.
func (s *sender) describeUnfinished(patience time.Duration) string {
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
