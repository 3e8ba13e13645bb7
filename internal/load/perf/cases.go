package perf

import (
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/selftest/message"
)

// test is a case: a kind of exchange that is measured with each method.
type test struct {
	name     string
	in, out  int
	window   int
	blocking bool
	selftest bool // the exchange is an RPC of LNet selftest: a BRW of in or out bytes, or a ping if both are 0
	// machine selects an exchange between two transfer machines. The passive one sends messages back
	// unchanged.
	machine  bool
	delivery tmhost.Delivery
	credits  int
	unit     unit
	Goals
}

// unit is the unit in which the result of a case is given.
type unit uint8

const (
	microseconds unit = iota
	gigabytes
	perSecond
)

func tests() []test { return slices.Concat(messageTests(), machineTests(), selftestTests()) }

// millionPerSecond is the goal for small messages, in exchanges per second.
const millionPerSecond = 1_000_000

// atMost and atLeast return a goal for the ratio.
func atMost(ratio float64) Goals  { return Goals{Goal: ratio} }
func atLeast(ratio float64) Goals { return Goals{Goal: ratio, AtLeast: true} }

// messageTests returns the cases with PUTs and GETs.
func messageTests() (ts []test) {
	for _, x := range []struct {
		size int
		goal float64
	}{{0, 1.25}, {96, 1.15}, {4096, 1.25}} {
		size := x.size
		ts = append(ts,
			test{name: fmt.Sprintf("PUT+ACK %d B, handler sends the next", size), in: size, window: 1, credits: 8, Goals: atMost(x.goal)},
			test{name: fmt.Sprintf("PUT+ACK %d B, caller blocks", size), in: size, window: 1, credits: 8, blocking: true, Goals: atMost(1.6)})
	}
	for _, window := range []int{1, 2, 8} {
		bulk := test{window: window, credits: 8, unit: gigabytes, Goals: atLeast(0.9)}
		if window == 8 {
			bulk.Goal = 0.97
		}
		put, get := bulk, bulk
		put.name, put.in = fmt.Sprintf("PUT 1 MiB, %d in flight", window), 1<<20
		get.name, get.out = fmt.Sprintf("GET 1 MiB, %d in flight", window), 1<<20
		ts = append(ts, put, get)
	}
	return append(ts,
		test{name: "PUT 96 B, 64 in flight, peer_credits 64", in: 96, window: 64, credits: highCredits, unit: perSecond,
			Goals: Goals{Goal: 4, AtLeast: true, FigureGoal: millionPerSecond}},
		test{name: "PUT 96 B, 64 in flight, peer_credits 8", in: 96, window: 64, credits: 8, unit: perSecond, Goals: atLeast(2.5)})
}

// machineTests returns the cases with transfer machines.
func machineTests() (ts []test) {
	tm := func(t test) {
		t.machine, t.credits = true, highCredits
		if t.window == 1 {
			t.credits = 8
		}
		ts = append(ts, t)
	}
	for _, d := range []struct {
		delivery tmhost.Delivery
		text     string
		goals    Goals
	}{{tmhost.Poll, "polling", atMost(1.6)}, {tmhost.Sync, "notified", Goals{CostGoal: 1.5}}, {tmhost.Async, "asynchronous", atMost(2.2)}} {
		tm(test{name: "TM message 96 B and back, " + d.text, in: 96, out: 96, window: 1, delivery: d.delivery, Goals: d.goals})
		if d.delivery != tmhost.Sync {
			tm(test{name: "TM message 96 B and back, 64 in flight, " + d.text, in: 96, out: 96, window: 64, delivery: d.delivery,
				unit: perSecond, Goals: atLeast(2.5)})
		}
	}
	tm(test{name: "TM bulk 1 MiB is fetched, 8 in flight", in: 1 << 20, window: 8, unit: gigabytes, Goals: atLeast(0.9)})
	tm(test{name: "TM bulk 1 MiB is brought, 8 in flight", out: 1 << 20, window: 8, unit: gigabytes, Goals: atLeast(0.9)})
	return ts
}

// selftestTests returns the cases with LNet selftest.
func selftestTests() (ts []test) {
	lst := func(t test) {
		t.selftest = true
		ts = append(ts, t)
	}
	lst(test{name: "lst ping, concurrency 1", window: 1, credits: 8, Goals: atMost(1.3)})
	lst(test{name: "lst ping, concurrency 64, peer_credits 64", window: 64, credits: highCredits, unit: perSecond, Goals: atLeast(2.5)})
	lst(test{name: "lst ping, concurrency 64, peer_credits 8", window: 64, credits: 8, unit: perSecond})
	for _, name := range []string{"write", "read"} {
		size := func(n int) test {
			if name == "write" {
				return test{in: n}
			}
			return test{out: n}
		}
		large, small := size(1<<20), size(4096)
		large.name, large.window, large.credits, large.unit = "lst brw "+name+" 1 MiB, concurrency 8", 8, 8, gigabytes
		large.Goals = atLeast(0.9)
		small.name, small.window, small.credits, small.unit = "lst brw "+name+" 4 KiB, concurrency 8", 8, 8, perSecond
		small.Goals = atLeast(0.95)
		lst(large)
		lst(small)
	}
	return ts
}

// plain returns the payload sizes of a message and of its answer when the case runs over plain TCP. For
// a selftest ping both are the size of a selftest message.
func (t *test) plain() (in, out int) {
	if t.selftest && t.in+t.out == 0 {
		return message.Size, message.Size
	}
	return t.in, t.out
}

// figure converts the time that n exchanges took to the unit of the case.
func (t *test) figure(took time.Duration, n int) float64 {
	each := took.Seconds() / float64(n)
	switch t.unit {
	case gigabytes:
		return float64(max(t.in, t.out)) / each / 1e9
	case perSecond:
		return 1 / each
	}
	return each * 1e6
}

func (t *test) show(v float64) string {
	switch t.unit {
	case gigabytes:
		return fmt.Sprintf("%.2f GB/s", v)
	case perSecond:
		return fmt.Sprintf("%.0f /s", v)
	}
	return fmt.Sprintf("%.1f µs", v)
}

// String returns the name of the unit in JSON.
func (u unit) String() string { return []string{"us", "GB/s", "1/s"}[u] }
