package fault_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/node/fault"
)

// hits returns the indexes of the messages that a rule drops, of n messages at intervals
// of step from time 1 on.
func hits(r *fault.Rules, n int, step time.Duration) []int {
	var at []int
	for i := range n {
		if r.DropArrival(aPut(), 1+int64(i)*int64(step)) {
			at = append(at, i)
		}
	}
	return at
}

// lnet-core 11.1
// lnetctl 15 (3)
func TestRateHitsOneOfEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fault.New(rapid.Uint64().Draw(t, "seed"))
		rate := rapid.IntRange(1, 50).Draw(t, "rate")
		if err := r.Add(fault.Rule{Kind: fault.Drop, Rate: rate}, 1); err != nil {
			t.Fatal(err)
		}
		const windows = 20
		at := hits(r, windows*rate, 0)
		if len(at) != windows {
			t.Fatalf("%d hits in %d windows of %d", len(at), windows, rate)
		}
		for w, i := range at {
			if i/rate != w {
				t.Fatalf("rate %d: hit %d is message %d, in window %d", rate, w, i, i/rate)
			}
		}
	})
}

// lnet-core 11.1
func TestRatePlaceInTheWindowIsRandom(t *testing.T) {
	const rate = 5
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: rate})
	const windows = 5000
	var places [rate]int
	for _, i := range hits(r, windows*rate, 0) {
		places[i%rate]++
	}
	for p, n := range places {
		if math.Abs(float64(n-windows/rate)) > windows/rate/4 {
			t.Errorf("place %d: %d of %d windows, want about a fifth", p, n, windows)
		}
	}
}

// lnet-core 11.1
// lnetctl 15 (3)
func TestRateTwoHitsTheFirstMessage(t *testing.T) {
	later := 0
	for seed := range uint64(100) {
		r := fault.New(seed)
		add(t, r, fault.Rule{Kind: fault.Drop, Rate: 2})
		at := hits(r, 4, 0)
		if at[0] != 0 {
			t.Fatalf("seed %d: message %d is the first hit", seed, at[0])
		}
		if at[1] == 3 {
			later++
		}
	}
	if later < 25 || later > 75 {
		t.Errorf("%d of 100 second windows have their hit at the second message, want about half", later)
	}
}

// lnet-core 11.1
func TestRateThreeHitsTheFirstMessageNowAndThen(t *testing.T) {
	first := 0
	for seed := range uint64(300) {
		r := fault.New(seed)
		add(t, r, fault.Rule{Kind: fault.Drop, Rate: 3})
		if r.DropArrival(aPut(), 1) {
			first++
		}
	}
	if first < 60 || first > 140 {
		t.Errorf("%d of 300 rules hit the first message, want about a third", first)
	}
}

// lnet-core 11.1
func TestRateOneHitsEverything(t *testing.T) {
	if at := hits(with(t, everyDrop), 100, 0); len(at) != 100 {
		t.Errorf("%d of 100 messages dropped", len(at))
	}
}

// Messages are far more frequent than the interval: one hit in each interval.
//
// lnet-core 11.1
// lnetctl 15 (3)
func TestIntervalHitsOneMessageInEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fault.New(rapid.Uint64().Draw(t, "seed"))
		const perInterval, intervals = 50, 20
		step := time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "step"))
		if err := r.Add(fault.Rule{Kind: fault.Drop, Interval: perInterval * step}, 1); err != nil {
			t.Fatal(err)
		}
		at := hits(r, perInterval*intervals, step)
		if len(at) > intervals {
			t.Fatalf("%d hits in %d intervals", len(at), intervals)
		}
		for k := range intervals - 1 {
			// A due time after the last message of an interval hits the first one of the next
			// interval.
			first, last := k*perInterval, (k+1)*perInterval
			if !slices.ContainsFunc(at, func(i int) bool { return first <= i && i <= last }) {
				t.Fatalf("none of messages %d to %d is hit, of an interval: %v", first, last, at)
			}
		}
	})
}

// lnet-core 11.1
func TestIntervalHitsAtARandomMoment(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Interval: 10 * time.Second})
	var tenths [10]int
	for _, i := range hits(r, 100_000, time.Second/10) {
		tenths[i%100/10]++
	}
	for p, n := range tenths {
		if n < 50 || n > 150 {
			t.Errorf("second %d of the interval: %d of 1000 hits, want about 100", p, n)
		}
	}
}

// lnet-core 11.1
func TestIntervalDoesNotCatchUp(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Interval: time.Second})
	now := 1 + 1000*second
	if !r.DropArrival(aPut(), now) {
		t.Fatal("the first message after a long silence passed")
	}
	if r.DropArrival(aPut(), now) {
		t.Fatal("a second message of the same moment dropped too")
	}
	dropped := 0
	for i := range int64(100) {
		if r.DropArrival(aPut(), now+i*second/100) {
			dropped++
		}
	}
	if dropped > 1 {
		t.Errorf("%d messages of one interval dropped", dropped)
	}
	if !r.DropArrival(aPut(), now+2*second) {
		t.Error("no message of the next interval dropped")
	}
}

// With rare messages, a rule by interval hits every message.
//
// lnet-core 11.1
func TestIntervalHitsEachOfFewMessages(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Interval: time.Second})
	for i := range int64(100) {
		if now := (i + 1) * 2 * second; !r.DropArrival(aPut(), now) {
			t.Fatalf("message %d passed, two intervals after the one before", i)
		}
	}
}

func TestIntervalsBeyondTheEndOfTime(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Interval: math.MaxInt64})
	dropped := 0
	for _, now := range []int64{1, second, math.MaxInt64 - 1, math.MaxInt64} {
		if r.DropArrival(aPut(), now) {
			dropped++
		}
	}
	if dropped > 2 {
		t.Errorf("%d messages dropped in one interval and the start of another", dropped)
	}
}

// lnet-core 11.1
// lnetctl 15 (3)
func TestRandomIntervalHitsHalf(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Interval: time.Hour, Random: true})
	if n := len(hits(r, 10_000, 0)); n < 4500 || n > 5500 {
		t.Errorf("%d of 10000 messages dropped, want about half", n)
	}
}

// lnet-core 11.1
func TestRandomMeansNothingWithARate(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 4, Random: true})
	if n := len(hits(r, 400, 0)); n != 100 {
		t.Errorf("%d of 400 messages dropped, want 100", n)
	}
}

func TestSameSeedSameHits(t *testing.T) {
	run := func(seed uint64) []int {
		r := fault.New(seed)
		add(t, r, fault.Rule{Kind: fault.Drop, Rate: 10})
		return hits(r, 1000, 0)
	}
	if !slices.Equal(run(3), run(3)) {
		t.Error("two runs of one seed differ")
	}
	if slices.Equal(run(3), run(4)) {
		t.Error("two seeds give the same hits")
	}
}
