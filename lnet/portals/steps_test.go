package portals_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// step is one step of a random test. The meaning of its numbers depends on the kind. MDs and
// operations are selected by number among those that exist.
type step struct {
	Kind         string
	Portal       uint32
	Entry        portals.Entry
	MD           portals.MD
	HandlerSteps [][]step // steps that the MD's handler takes for its first events
	NoHandler    bool     // the MD has no handler
	Put          bool
	Initiator    lnet.ProcessID
	Aliases      []lnet.NID
	Bits         uint64
	Offset       int
	Length       int
	WantAck      bool
	Begin        portals.Begin
	Which        int
	Fail         bool
	Now          int64
}

var (
	kinds = []string{
		"attach", "attach", "attach", "bind", "bind", "unlink", "match", "match", "match", "match",
		"begin", "begin", "take", "take", "finish", "finish", "finish", "lazy", "clear", "drop", "rehop", "overdue", "expire",
	}
	pids = []lnet.PID{lnet.PIDLustre, lnet.PIDLustre, 7, lnet.PIDAny, 0}
	nids = []lnet.NID{here.NID, alias.NID, there.NID, lnet.AnyNID, {}}
)

// drawStep draws a step. Handlers of its MDs are nested up to depth levels.
func drawStep(t *rapid.T, depth int) step {
	boolean := func(name string) bool { return rapid.Bool().Draw(t, name) }
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	d := step{Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch d.Kind {
	case "attach":
		d.Entry = portals.Entry{
			Portal:     rapid.SampledFrom([]uint32{1, 1, 1, 2, 64}).Draw(t, "portal"),
			MatchBits:  uint64(number("bits", 0, 3)),
			IgnoreBits: rapid.SampledFrom([]uint64{0, 0, 0, 1, 2, 3}).Draw(t, "ignore"),
			Position:   rapid.SampledFrom([]portals.Position{portals.Before, portals.After, portals.Local}).Draw(t, "position"),
		}
		if boolean("picky") {
			d.Entry.Match = lnet.ProcessID{NID: rapid.SampledFrom(nids).Draw(t, "nid"), PID: rapid.SampledFrom(pids).Draw(t, "pid")}
		}
		d.MD.Options = rapid.SampledFrom([]portals.MDOptions{
			0, portals.OpPut, portals.OpPut, portals.OpGet, portals.OpPut | portals.OpGet, portals.OpPut | portals.OpGet,
		}).Draw(t, "operations")
		for _, o := range []portals.MDOptions{portals.Truncate, portals.ManageRemote, portals.AckDisable, portals.MaxSize} {
			if boolean("option") {
				d.MD.Options |= o
			}
		}
	case "bind":
		d.MD.Options = rapid.SampledFrom([]portals.MDOptions{
			0, 0, portals.Truncate, portals.TrackResponse, portals.NoTrackResponse, portals.OpPut,
		}).Draw(t, "options")
	case "match":
		d.Put, d.WantAck = number("operation", 0, 2) > 0, boolean("ask")
		d.Portal = rapid.SampledFrom([]uint32{1, 1, 1, 1, 2, 64}).Draw(t, "portal")
		d.Initiator = lnet.ProcessID{NID: rapid.SampledFrom(nids[:3]).Draw(t, "nid"), PID: rapid.SampledFrom(pids[:3]).Draw(t, "pid")}
		if d.Initiator.NID == here.NID && boolean("known") {
			d.Aliases = []lnet.NID{alias.NID}
		}
		d.Bits, d.Length = uint64(number("bits", 0, 3)), number("length", 0, 7)
		d.Offset = rapid.SampledFrom([]int{0, 1, 3, 6, 7, 1 << 30}).Draw(t, "offset")
	case "begin":
		d.Begin = portals.Begin{Type: lnet.MsgPut, Track: boolean("track"), Response: boolean("response")}
		if boolean("get") {
			d.Begin.Type, d.Begin.Response = lnet.MsgGet, true
		}
		d.Begin.Now = int64(number("now", 1, 50))
		d.Begin.Deadline = d.Begin.Now + 50
		d.Begin.NextHop = rapid.SampledFrom(nids).Draw(t, "hop")
	case "take":
		d.Put, d.Length = boolean("ack"), number("payload", 0, 7)
	case "lazy", "clear":
		d.Portal = uint32(number("portal", 1, 2))
	case "overdue", "expire":
		d.Now = int64(number("now", 1, 110))
	case "finish":
		d.Fail = number("outcome", 0, 3) == 0
	}
	d.Which = number("which", 0, 99)
	if d.Kind == "attach" || d.Kind == "bind" {
		d.MD.Threshold = rapid.SampledFrom([]int{-1, -1, 0, 1, 2, 2, 3}).Draw(t, "threshold")
		d.MD.Bytes = make([]byte, number("length", 0, 6))
		d.MD.MaxSize = number("max size", 0, 4)
		d.MD.Unlink = boolean("unlink")
		d.NoHandler = number("silent", 0, 4) == 0
		if depth > 0 && !d.NoHandler {
			for range number("handled", 0, 3) {
				var steps []step
				for range number("steps", 0, 3) {
					steps = append(steps, drawStep(t, depth-1))
				}
				d.HandlerSteps = append(d.HandlerSteps, steps)
			}
		}
	}
	return d
}

// stepRunner runs steps in an implementation, and records the results.
type stepRunner struct {
	w       implementation
	log     []string
	handles []lnet.Handle // of all MDs created so far
	ops     int
	open    []*exchange // accepted, taken or begun, not finished
	waiting []*exchange // delayed
	mds     int
}

func (s *stepRunner) logf(format string, a ...any) { s.log = append(s.log, fmt.Sprintf(format, a...)) }

func (s *stepRunner) exchange() *exchange {
	s.ops++
	x := &exchange{id: s.ops}
	x.Owner = x
	return x
}

// handle selects one of the MDs, usually a recent one, and occasionally one that does not
// exist.
func (s *stepRunner) handle(which int) lnet.Handle {
	if len(s.handles) == 0 || which == 99 {
		return lnet.Handle{Interface: cookie, Object: uint64(which)}
	}
	recent := s.handles[max(0, len(s.handles)-12):]
	return recent[which%len(recent)]
}

func (s *stepRunner) event(e *portals.Event) {
	s.logf("event %v %v of %v %v: unlinked %v, portal %d, from %v, bits %d, %d of %d bytes at %d in %d, options %#x, %v",
		e.Type, e.MsgType, e.UserPtr, e.MD, e.Unlinked, e.Portal, e.Initiator, e.MatchBits,
		e.Length, e.Requested, e.Offset, len(e.Bytes), uint32(e.Options), e.Err)
}

func (s *stepRunner) started(x *exchange) {
	s.open = append(s.open, x)
	offset, length := s.w.memory(x)
	if length == 0 {
		offset = 0 // does not exist
	}
	s.logf("operation %d has %d bytes at %d of %v, ACK %v, issued %d", x.id, length, offset, x.Event.MD, x.Ack, x.Issued)
}

func (s *stepRunner) dropped(list []*exchange) {
	for _, x := range list {
		s.logf("operation %d is dropped", x.id)
		s.waiting = slices.DeleteFunc(s.waiting, func(y *exchange) bool { return x == y })
	}
}

// kindOf maps errors of both implementations to comparable values.
func kindOf(err error) error {
	for _, kind := range []error{portals.ErrInvalid, portals.ErrNotFound, portals.ErrPortalClass, portals.ErrClosed} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// handler returns the handler of the next MD.
func (s *stepRunner) handler(d *step) portals.Handler {
	s.mds++
	if d.NoHandler {
		return nil
	}
	turn := 0
	return portals.HandlerFunc(func(e *portals.Event) {
		s.event(e)
		turn++
		if turn <= len(d.HandlerSteps) {
			for i := range d.HandlerSteps[turn-1] {
				s.run(&d.HandlerSteps[turn-1][i])
			}
		}
		s.logf("handled")
	})
}

func (s *stepRunner) run(d *step) {
	s.logf("%s %d", d.Kind, d.Which)
	switch d.Kind {
	case "attach":
		md := d.MD
		md.Handler = s.handler(d)
		md.UserPtr = s.mds
		h, accepted, dropped, err := s.w.attach(d.Entry, md)
		s.logf("MD %v, %v", h, kindOf(err))
		if err == nil {
			s.handles = append(s.handles, h)
		}
		for _, x := range accepted {
			s.waiting = slices.DeleteFunc(s.waiting, func(y *exchange) bool { return x == y })
			s.started(x)
		}
		s.dropped(dropped)
	case "bind":
		md := d.MD
		md.Handler = s.handler(d)
		md.UserPtr = s.mds
		h, err := s.w.bind(md)
		s.logf("MD %v, %v", h, kindOf(err))
		if err == nil {
			s.handles = append(s.handles, h)
		}
	case "unlink":
		err := s.w.unlink(s.handle(d.Which))
		s.logf("unlinked: %v", kindOf(err))
	case "match":
		s.match(d)
	case "begin":
		x := s.exchange()
		length, err := s.w.begin(s.handle(d.Which), x, d.Begin)
		s.logf("%d bytes, %v", length, kindOf(err))
		if err == nil {
			s.started(x)
		}
	case "take":
		x := s.exchange()
		t := portals.EventReply
		if d.Put {
			t = portals.EventAck
		}
		ok := s.w.take(s.handle(d.Which), x, t, d.Length)
		s.logf("taken: %v", ok)
		if ok {
			s.started(x)
		}
	case "finish":
		if len(s.open) > 0 {
			var err error
			if d.Fail {
				err = portals.ErrCanceled
			}
			s.finish(d.Which%len(s.open), err)
		}
	case "lazy":
		s.w.setLazy(d.Portal)
	case "clear":
		s.dropped(s.w.clearLazy(d.Portal))
	case "drop":
		s.dropped(s.w.dropDelayed(func(x *exchange) bool { return x.id%2 == d.Which%2 }))
	case "rehop":
		if len(s.open) > 0 {
			s.w.setNextHop(s.open[d.Which%len(s.open)], there.NID)
		}
	case "overdue":
		list := s.w.overdue(d.Now)
		slices.SortFunc(list, func(a, b portals.Overdue) int { return int(a.Handle.Object) - int(b.Handle.Object) })
		s.logf("overdue %v", list)
	case "expire":
		err := s.w.unlinkOverdue(s.handle(d.Which), d.Now)
		s.logf("unlinked: %v", kindOf(err))
	}
	s.logf("%d tracked", s.w.tracked())
}

func (s *stepRunner) match(d *step) {
	x := s.exchange()
	e := &x.Event
	e.Type, e.MsgType = portals.EventGet, lnet.MsgGet
	if d.Put {
		e.Type, e.MsgType, e.Requested = portals.EventPut, lnet.MsgPut, d.Length
	}
	e.Portal, e.MatchBits, e.Initiator = d.Portal, d.Bits, d.Initiator
	x.Length, x.RemoteOffset, x.Aliases, x.Handle = d.Length, d.Offset, d.Aliases, lnet.NoHandle
	if d.WantAck {
		x.Handle = lnet.Handle{Interface: 1, Object: 1}
	}
	v := s.w.match(x)
	s.logf("verdict %d", v)
	switch v {
	case portals.Accept:
		s.started(x)
	case portals.Delay:
		s.waiting = append(s.waiting, x)
	}
}

func (s *stepRunner) finish(i int, err error) {
	x := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	s.logf("aborted %v", s.w.aborted(x))
	s.w.finish(x, err)
}

// end ends all operations that have begun.
func (s *stepRunner) end() {
	for len(s.open) > 0 {
		s.finish(0, nil)
	}
	for i := 0; i < len(s.handles); i++ { // handlers may create more
		if err := s.w.unlink(s.handles[i]); err == nil {
			s.logf("%v was left", s.handles[i])
		}
	}
	for len(s.open) > 0 {
		s.finish(0, nil)
	}
	s.dropped(s.w.close())
	s.logf("%d tracked, %d delayed", s.w.tracked(), len(s.waiting))
}

// runSteps returns the results of the steps in w.
func runSteps(w implementation, steps []step) []string {
	s := &stepRunner{w: w}
	for i := range steps {
		s.run(&steps[i])
	}
	s.end()
	return s.log
}

// Random steps, including nested handlers, give the same results with the table and with
// the model.
func TestTableEqualsModel(t *testing.T) {
	// lnet-core 2.1 (1)-(4), 2.2 unlink (1)-(6), 3.3 (1)-(2), 3.4 (1)-(7), 4.2 (1)-(10)
	// lnet-core 4.3 (4)-(5), 4.6 (1)-(4)
	rapid.Check(t, func(t *rapid.T) {
		var steps []step
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			steps = append(steps, drawStep(t, 2))
		}
		want := runSteps(newModel(), steps)
		got := runSteps(actual{newTable()}, steps)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("results (-model +table):\n%s", d)
		}
	})
}
