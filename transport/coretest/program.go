package coretest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/transport"
)

// RandomPrograms runs random programs on a Core in simulated time, and compares the results with a model of TMs
// and pools. The model is a simple implementation of the specification. There are two kinds of programs. Each kind
// runs as often as rapid's flag -rapid.checks states, 100 times by default:
//
//   - Calm programs perform one action at a time, and wait until nothing is in progress. The model
//     predicts each event with its status, length, offset, content, statistics and order.
//   - Storms perform actions in several goroutines, while callbacks continue to send. The model
//     checks that each event is possible, that each add has one final event, and the contents
//     and totals.
//
// The Core's network must lose nothing, keep the order of messages, and become idle within half of calm.
//
// transport 3.7 flags, 3.8 table, 3.8 (1)-(3), 3.8 errors, 3.8 del, 3.9 (1)
// transport 3.10 posting (2)-(3), 3.10 posting (5), 3.10 guarantees
// transport 3.11 (1)-(4), 3.12 (1)-(2), 4 get, 4 put, 5.2 (1), 5.2 (3), 5.3 (2)
func RandomPrograms(t *testing.T, h Harness) {
	if h.Bubble == nil || h.Strict {
		t.Fatal("random programs need simulated time, and a Core that does not complain")
	}
	t.Run("Calm", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { runProgram(t, rt, &h, drawProgram(rt, false)) })
	})
	t.Run("Storm", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { runProgram(t, rt, &h, drawProgram(rt, true)) })
	})
}

// calm is twice the maximum time that a network needs until no operation is in progress any more.
const calm = 100 * time.Millisecond

// program is a random program. The meaning of the numbers in an action depends on the state in which the
// action is performed.
type program struct {
	Sizes   []int // sizes of the buffers without a pool, which belong to host 0 and host 1 in turn
	Pools   [2]transport.PoolConfig
	Actions []action
	Lanes   [][]action // actions of several goroutines, which run after Actions; nil in a calm program
}

// action is one action of a program. Kind determines which of the other fields it uses.
type action struct {
	Kind   string
	Slot   int // selects a TM
	Which  int // selects a buffer, descriptor or other object
	Queue  transport.QueueType
	Length int
	Min    int
	Max    int
	Fault  fault
	Halves int // deadline in units of calm/2; 0 means no deadline
	Colour uint32
	Yes    bool
	Pooled bool // whether a new TM gets a pool
	Then   then
}

// fault is a deliberate error in the arguments of an add, which the TM must refuse.
type fault uint8

const (
	faultNone fault = iota
	faultLength
	faultOffset
	faultCallback
	faultMin
	faultMax
	faultEndPoint
	faultLate
	faultForeign
	faultDescriptor
	faults
)

// then is what the callback of a buffer's final event does.
type then uint8

const (
	thenNothing then = iota
	thenReadd
	thenReaddLater
	thenCancel
	thenStop
	thenPut
	thenGet
	thens
)

// actionKinds lists the kinds of actions. When rapid simplifies a failing program, it prefers kinds near the
// front, so these are harmless. Kinds that occur several times are drawn more often.
var actionKinds = []string{
	"nothing", "send", "receive", "active", "send", "passive", "send", "active", "receive", "cancel", "deliver", "add",
	"stop", "pass", "put", "get", "length", "grow", "close", "new", "start", "send", "active", "passive", "receive", "add",
	"pass", "prune", "colour", "reset", "hold", "drop", "deliver", "close", "new", "start",
}

func drawProgram(t *rapid.T, concurrent bool) program {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	var p program
	p.Sizes = rapid.SliceOfN(rapid.SampledFrom([]int{300, 1, 40, 150, 90, 300, 10, 200, 120}), 12, 12).Draw(t, "sizes")
	for i := range p.Pools {
		p.Pools[i] = transport.PoolConfig{
			Segments: number("segments", 1, 2), SegmentSize: rapid.SampledFrom([]int{100, 16, 50, 90}).Draw(t, "segment size"),
			Threshold: number("threshold", 0, 3), Colours: number("colours", 0, 2),
		}
	}
	p.Actions = []action{{Kind: "grow", Slot: 0, Max: number("buffers", 0, 6)}, {Kind: "grow", Slot: 2, Max: number("buffers", 0, 4)}}
	for slot := range 3 {
		d := drawAction(t)
		d.Kind, d.Slot = "new", slot
		p.Actions = append(p.Actions, d, action{Kind: "start", Slot: slot, Yes: true})
	}
	if !concurrent {
		p.Actions = append(p.Actions, rapid.SliceOfN(rapid.Custom(drawAction), 20, 80).Draw(t, "actions")...)
		return p
	}
	for range number("lanes", 2, 3) {
		p.Lanes = append(p.Lanes, rapid.SliceOfN(rapid.Custom(drawConcurrentAction), 10, 50).Draw(t, "lane"))
	}
	return p
}

func drawAction(t *rapid.T) action {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	d := action{
		Kind: rapid.SampledFrom(actionKinds).Draw(t, "kind"), Slot: number("slot", 0, 2), Which: number("which", 0, 99),
		Queue: transport.QueueType(number("queue", 0, int(transport.QueueTypes)-1)), Length: number("length", 1, 120),
		Min: rapid.SampledFrom([]int{40, 1, 20, 60, 120}).Draw(t, "min"), Max: rapid.SampledFrom([]int{1, 2, 3, 4, 40}).Draw(t, "max"),
		Halves: rapid.SampledFrom([]int{0, 0, 0, 0, 0, 5, 1, 3, 9}).Draw(t, "halves"),
		Colour: rapid.SampledFrom([]uint32{transport.AnyColour, 0, 1, 2}).Draw(t, "colour"),
		Yes:    rapid.Bool().Draw(t, "yes"), Pooled: number("pooled", 0, 3) > 0,
		Then: then(number("then", 0, int(thens)-1)),
	}
	if number("wrong", 0, 7) == 0 {
		d.Fault = fault(number("fault", 1, int(faults)-1))
	}
	d.aim()
	return d
}

// aim sets Queue to one that suits the kind of the action.
func (d *action) aim() {
	switch d.Kind {
	case "receive":
		d.Queue = transport.MsgRecv
	case "send":
		d.Queue = transport.MsgSend
	case "passive":
		d.Queue = transport.PassiveBulkRecv + d.Queue%2
	case "active":
		d.Queue = transport.ActiveBulkRecv + d.Queue%2
	}
}

var concurrentKinds = []string{
	"yield", "receive", "receive", "receive", "send", "send", "send", "passive", "active", "cancel", "cancel", "pass", "stop", "length", "get",
}

// drawConcurrentAction draws an action for a lane.
func drawConcurrentAction(t *rapid.T) action {
	d := drawAction(t)
	kind := rapid.SampledFrom(concurrentKinds).Draw(t, "kind")
	if kind == "stop" && d.Which > 20 {
		kind = "yield"
	}
	d.Kind, d.Fault = kind, faultNone
	d.aim()
	return d
}
