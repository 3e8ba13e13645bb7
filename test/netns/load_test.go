package netns

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Destinations of messages. The match bits are the number of the sender and of the operation.
const (
	putPortal = 20
	getPortal = 21
	numberBit = 48
	seqMask   = 1<<numberBit - 1
	mebibyte  = 1 << 20
)

// pattern is the source of all payloads. It is the same in every process.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, mebibyte+patternSpan)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(b); err != nil {
		panic(err)
	}
	return b
})

const patternSpan = 1 << 16

// offsetOf returns the offset of an operation's payload in the pattern.
func offsetOf(seq uint64) int { return int(seq*7919) % patternSpan }

// Plan is the configuration of a load: alternating PUTs with an ACK and GETs.
type Plan struct {
	To     string // NID
	Number int    // of the load; set by begin
	Sizes  []int  // in bytes, used in turn
	// Rate is the number of operations that begin per second, whether or not others end. Window limits
	// those in progress.
	Rate, Window int
}

// Report is the result of a load.
type Report struct {
	Puts, Gets   uint64 // successful ones
	Bytes        uint64
	Acknowledged set // the PUTs
	Failures     []Failure
	Slowest      time.Duration // longest duration of a successful operation
	// Stall is the longest time without a successful operation.
	Stall    time.Duration
	Findings []string
}

// Failure is an operation that failed.
type Failure struct {
	Seq          uint64
	Get          bool
	Size         int
	Begun, Ended time.Time
	Cause        string
}

func (f *Failure) String() string {
	return fmt.Sprintf("%d (get %t, %d bytes), %v after it began: %s", f.Seq, f.Get, f.Size, f.Ended.Sub(f.Begun).Round(time.Millisecond), f.Cause)
}

func (r *Report) done() uint64 { return r.Puts + r.Gets }

func (r *Report) String() string {
	causes := map[string]int{}
	var slowest time.Duration
	for _, f := range r.Failures {
		causes[f.Cause]++
		slowest = max(slowest, f.Ended.Sub(f.Begun))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d PUT+ACK and %d GET (%.1f MB), slowest %v, longest stall %v, %d failed",
		r.Puts, r.Gets, float64(r.Bytes)/1e6, r.Slowest.Round(time.Millisecond), r.Stall.Round(time.Millisecond), len(r.Failures))
	for _, c := range slices.Sorted(maps.Keys(causes)) {
		fmt.Fprintf(&b, "; %s: %d", c, causes[c])
	}
	if slowest > 0 {
		fmt.Fprintf(&b, "; the slowest failure took %v", slowest.Round(time.Millisecond))
	}
	return b.String()
}

// begunBetween returns the failures of operations that began in a span of time.
func (r *Report) begunBetween(from, until time.Time) (failed []Failure) {
	for _, f := range r.Failures {
		if f.Begun.After(from) && f.Begun.Before(until) {
			failed = append(failed, f)
		}
	}
	return failed
}

// set is a set of operations.
type set []uint64

func (s *set) add(seq uint64) (news bool) {
	word, bit := int(seq/64), uint64(1)<<(seq%64)
	for len(*s) <= word {
		*s = append(*s, 0)
	}
	news = (*s)[word]&bit == 0
	(*s)[word] |= bit
	return news
}

// without returns the number of members that o does not contain.
func (s set) without(o set) (n int) {
	for k, word := range s {
		if k < len(o) {
			word &^= o[k]
		}
		for ; word != 0; word &= word - 1 {
			n++
		}
	}
	return n
}

// sender is a running load.
type sender struct {
	node *node.Node
	to   lnet.ProcessID
	plan Plan

	mu       sync.Mutex
	report   Report
	next     uint64
	active   int
	progress time.Time // end of the latest successful operation
	stopped  bool
	stop     chan struct{} // closed when no more operations must begin
	drained  chan struct{} // closed after stop, when no operation is in progress
}

func newSender(n *node.Node, p Plan) (*sender, error) {
	nid, err := lnet.ParseNID(p.To)
	if err != nil {
		return nil, err
	}
	s := &sender{
		node: n, to: lnet.ProcessID{NID: nid, PID: lnet.PIDLustre}, plan: p,
		progress: time.Now(), stop: make(chan struct{}), drained: make(chan struct{}),
	}
	return s, nil
}

// pace is the interval at which operations begin.
const pace = 5 * time.Millisecond

func (s *sender) run() {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	start, begun := time.Now(), 0
	for {
		select {
		case <-s.stop:
			s.mu.Lock()
			s.stopped = true
			s.checkDrained()
			s.mu.Unlock()
			return
		case <-tick.C:
		}
		for due := int(time.Since(start).Seconds() * float64(s.plan.Rate)); begun < due; begun++ {
			s.issue()
		}
	}
}

// operation is one operation, and the handler of its MD. Its events come one at a time.
type operation struct {
	s      *sender
	seq    uint64
	get    bool
	size   int
	begun  time.Time
	memory []byte

	sent, answered bool
	failed         error
}

// issue begins an operation.
func (s *sender) issue() {
	s.mu.Lock()
	if s.active >= s.plan.Window {
		s.mu.Unlock()
		return
	}
	s.active++
	o := &operation{s: s, seq: s.next, get: s.next%2 == 1, begun: time.Now()}
	o.size = s.plan.Sizes[s.next/2%uint64(len(s.plan.Sizes))]
	s.next++
	s.mu.Unlock()
	o.memory = pattern()[offsetOf(o.seq):][:o.size]
	if o.get {
		o.memory = make([]byte, o.size)
	}
	h, err := s.node.Bind(portals.MD{Bytes: o.memory, Threshold: 2, Unlink: true, Handler: o})
	if err != nil {
		o.end(err)
		return
	}
	bits := uint64(s.plan.Number)<<numberBit | o.seq
	if o.get {
		err = s.node.Get(h, s.to, node.GetOptions{Portal: getPortal, MatchBits: bits, Offset: uint32(offsetOf(o.seq))})
	} else {
		err = s.node.Put(h, s.to, node.PutOptions{Portal: putPortal, MatchBits: bits, HdrData: uint64(o.size), Ack: true})
	}
	if err != nil { // no event follows except that of Unlink
		o.failed = err
		if err := s.node.Unlink(h); err != nil {
			o.finding("%v", err)
		}
	}
}

func (o *operation) finding(format string, args ...any) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.s.report.Findings = addFinding(o.s.report.Findings, fmt.Sprintf("operation %d: ", o.seq)+fmt.Sprintf(format, args...))
}

// addFinding appends f, up to a limit.
func addFinding(all []string, f string) []string {
	const enough = 20
	if len(all) < enough {
		all = append(all, f)
	}
	return all
}

// HandleEvent implements the handler of the operation's MD.
func (o *operation) HandleEvent(e *portals.Event) {
	switch e.Type {
	case portals.EventSend:
		if o.sent {
			o.finding("a second SEND")
		}
		o.sent = true
		if e.Err != nil {
			o.failed = e.Err
			if !e.Unlinked { // no answer will come
				if err := o.s.node.Unlink(e.MD); err != nil {
					o.finding("%v", err)
				}
			}
		}
	case portals.EventAck, portals.EventReply:
		o.answer(e)
	case portals.EventUnlink:
	default:
		o.finding("unexpected %s", e.Type)
	}
	if e.Unlinked {
		if !o.sent && !o.answered && o.failed == nil {
			o.finding("ended without a SEND")
		}
		o.end(o.outcome())
	}
}

// answer checks an ACK or a REPLY.
func (o *operation) answer(e *portals.Event) {
	if want := map[bool]portals.EventType{false: portals.EventAck, true: portals.EventReply}[o.get]; e.Type != want {
		o.finding("%s, want %s", e.Type, want)
	}
	if o.answered {
		o.finding("a second %s", e.Type)
	}
	if e.Err != nil { // incomplete, or too late
		o.failed = e.Err
		return
	}
	o.answered = true
	switch {
	case e.Length != o.size:
		o.finding("%s of %d bytes, want %d", e.Type, e.Length, o.size)
	case o.get && !bytes.Equal(o.memory, pattern()[offsetOf(o.seq):][:o.size]):
		o.finding("a REPLY with the wrong content")
	}
}

var errNoAnswer = errors.New("no answer")

// unreachable is the cause of an operation without a path.
const unreachable = "unreachable"

func (o *operation) outcome() error {
	switch {
	case o.answered:
		return nil
	case o.failed != nil:
		return o.failed
	}
	return errNoAnswer
}

// end records the result of the operation.
func (o *operation) end(err error) {
	s, now := o.s, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.report
	if err != nil {
		r.Failures = append(r.Failures, Failure{
			Seq: o.seq, Get: o.get, Size: o.size, Begun: o.begun, Ended: now, Cause: cause(err)})
	} else {
		r.Bytes += uint64(o.size)
		if o.get {
			r.Gets++
		} else {
			r.Puts++
			r.Acknowledged.add(o.seq)
		}
		r.Slowest = max(r.Slowest, now.Sub(o.begun))
		r.Stall = max(r.Stall, now.Sub(s.progress))
		s.progress = now
	}
	s.active--
	s.checkDrained()
}

// checkDrained closes drained if the load is stopped and idle. s.mu is held.
func (s *sender) checkDrained() {
	if s.stopped && s.active == 0 {
		close(s.drained)
	}
}

// cause returns the class of an error.
func cause(err error) string {
	switch {
	case errors.Is(err, errNoAnswer):
		return err.Error()
	case errors.Is(err, node.ErrUnreachable):
		return unreachable
	case errors.Is(err, node.ErrCanceled):
		return "canceled"
	case errors.Is(err, node.ErrTimedOut):
		return "timed out"
	}
	var e *lnd.Error
	if errors.As(err, &e) {
		return e.Status.String()
	}
	return err.Error()
}

// finish waits until all operations have ended.
func (s *sender) finish(patience time.Duration) Report {
	close(s.stop)
	select {
	case <-s.drained:
	case <-time.After(patience):
		s.mu.Lock()
		s.report.Findings = addFinding(s.report.Findings, fmt.Sprintf("%d operations have not ended %v after the last was begun", s.active, patience))
		s.mu.Unlock()
	}
	return s.look()
}

func (s *sender) look() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Acknowledged = slices.Clone(r.Acknowledged)
	r.Failures = slices.Clone(r.Failures)
	r.Findings = slices.Clone(r.Findings)
	return r
}
