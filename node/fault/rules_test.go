package fault_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
)

// lnet-core 11.1
func TestStatusesDivideReceivingFromSending(t *testing.T) {
	failing := fault.StatusOf(lnd.StatusRemoteDropped)
	for _, c := range []struct {
		name       string
		rule       fault.Rule
		drop, fail bool
		status     lnd.Status
	}{
		{"without statuses", fault.Rule{Rate: 1}, true, false, lnd.StatusOK},
		{"with statuses", fault.Rule{Rate: 1, Statuses: failing}, false, true, lnd.StatusRemoteDropped},
		{"drop_all without statuses", fault.Rule{Rate: 1000, DropAll: true}, true, true, lnd.StatusLocalDropped},
		{"drop_all with statuses", fault.Rule{Interval: time.Hour, DropAll: true, Statuses: failing}, true, true, lnd.StatusRemoteDropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.Kind = fault.Drop
			r := with(t, c.rule)
			for range 20 {
				if got := r.DropArrival(aPut(), 1); got != c.drop {
					t.Fatalf("arrival dropped %t, want %t", got, c.drop)
				}
				status, fail := r.FailSend(aPut(), 1)
				if fail != c.fail || status != c.status {
					t.Fatalf("send failed %t with %s, want %t with %s", fail, status, c.fail, c.status)
				}
				if _, _, hold := r.Hold(aPut(), 1); hold {
					t.Fatal("a drop rule held a message")
				}
			}
		})
	}
}

// A rule for one direction does not count messages of the other one.
//
// lnet-core 11.1
func TestSendsDoNotAdvanceARuleOfArrivals(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 2})
	for range 5 {
		r.FailSend(aPut(), 1)
	}
	if got := one(t, r, fault.Drop).Counts; got != (fault.Counts{}) {
		t.Errorf("counts %+v, want none", got)
	}
	if !r.DropArrival(aPut(), 1) {
		t.Error("the first arrival passed a rule of rate 2")
	}
}

// A message that is sent has no receiving NI with which the local NID could be compared.
//
// lnet-core 11.1
func TestLocalNIDMatchesNoSend(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 1, Statuses: fault.RandomStatus, Local: fault.Only(nidA)})
	sent := &fault.Message{Source: nidA, Dest: nidB, Type: lnet.MsgPut}
	if _, fail := r.FailSend(sent, 1); fail {
		t.Error("the send failed")
	}
}

// lnet-core 11.1
// lnetctl 15 (5)
func TestNewRulesComeFirstAndTheFirstHitEndsTheSearch(t *testing.T) {
	old := everyDrop
	old.Source = fault.Only(nidA)
	newest := everyDrop
	newest.Rate = 2
	r := with(t, old, newest)

	first := r.DropArrival(aPut(), 1)  // hit by the new rule
	second := r.DropArrival(aPut(), 1) // hit by one of them after both or one have counted it
	if !first || !second {
		t.Fatal("a message passed both rules")
	}
	l := r.List(fault.Drop)
	if l[0].Rate != 2 || l[1].Rate != 1 {
		t.Fatalf("rates %d, %d in the list, want the new rule's 2 first", l[0].Rate, l[1].Rate)
	}
	// The new rule has hit one of two messages. It has counted both, and the old rule only
	// the one that the new rule did not hit.
	want := []fault.Counts{{Matched: 2, Hits: 1, Put: 1}, {Matched: 1, Hits: 1, Put: 1}}
	if diff := cmp.Diff(want, []fault.Counts{l[0].Counts, l[1].Counts}); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// lnet-core 11.1, 11.2
func TestHitsAreCountedByType(t *testing.T) {
	r := with(t, everyDrop, fault.Rule{Kind: fault.Delay, Rate: 1, Latency: time.Second})
	for typ, n := range map[lnet.MsgType]int{lnet.MsgPut: 4, lnet.MsgAck: 3, lnet.MsgGet: 2, lnet.MsgReply: 1} {
		for range n {
			r.DropArrival(ofType(typ), 1)
			r.Hold(ofType(typ), 1)
		}
	}
	want := fault.Counts{Matched: 10, Hits: 10, Put: 4, Ack: 3, Get: 2, Reply: 1}
	for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
		if diff := cmp.Diff(want, one(t, r, k).Counts); diff != "" {
			t.Errorf("%s rule (-want +got):\n%s", k, diff)
		}
	}
}

// lnet-core 11.1
func TestCountsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fault.New(rapid.Uint64().Draw(t, "seed"))
		rates := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 4).Draw(t, "rates, the last is searched first")
		for _, rate := range rates {
			if err := r.Add(fault.Rule{Kind: fault.Drop, Rate: rate}, 1); err != nil {
				t.Fatal(err)
			}
		}
		n := rapid.IntRange(0, 100).Draw(t, "messages")
		dropped := 0
		for range n {
			if r.DropArrival(ofType(lnet.MsgType(rapid.Uint32Range(0, 3).Draw(t, "type"))), 1) {
				dropped++
			}
		}
		reaches := uint64(n)
		for _, s := range r.List(fault.Drop) {
			c := s.Counts
			if c.Matched != reaches || c.Hits != c.Put+c.Ack+c.Get+c.Reply {
				t.Fatalf("rate %d: counts %+v of %d messages that reach it", s.Rate, c, reaches)
			}
			if rate := uint64(s.Rate); c.Hits < c.Matched/rate || c.Hits > (c.Matched+rate-1)/rate {
				t.Fatalf("rate %d: %d hits of %d", rate, c.Hits, c.Matched)
			}
			reaches -= c.Hits
		}
		if reaches != uint64(n-dropped) {
			t.Fatalf("%d of %d messages dropped, but the rules leave %d", dropped, n, reaches)
		}
	})
}

// lnet-core 11.1
func TestResetZeroesTheCountersOfAllRules(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 3}, fault.Rule{Kind: fault.Delay, Rate: 3, Latency: time.Second})
	look := func(n int) {
		for range n {
			r.DropArrival(aPut(), 1)
			r.Hold(aPut(), 1)
		}
	}
	look(7)
	r.Reset()
	for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
		if got := one(t, r, k).Counts; got != (fault.Counts{}) {
			t.Errorf("%s rule counts %+v", k, got)
		}
	}
	look(30)
	for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
		if got, want := one(t, r, k).Counts, (fault.Counts{Matched: 30, Hits: 10, Put: 10}); got != want {
			t.Errorf("%s rule counts %+v, want %+v", k, got, want)
		}
	}
}

// lnet-core 11.1
// lnetctl 15 (6)
func TestRemoveBySourceAndDestination(t *testing.T) {
	all, onTCP, onlyA, onlyB := fault.NIDFilter{}, fault.On(tcp), fault.Only(nidA), fault.Only(nidB)
	pairs := [][2]fault.NIDFilter{{all, all}, {all, onlyB}, {onTCP, onlyB}, {onlyA, onlyB}, {onlyA, all}}
	for _, c := range []struct {
		name         string
		source, dest fault.NIDFilter
		want         []fault.ID // newest first
	}{
		{"all", all, all, []fault.ID{5, 4, 3, 2, 1}},
		{"from anywhere to B", all, onlyB, []fault.ID{4, 3, 2}},
		{"from A to anywhere", onlyA, all, []fault.ID{5, 4}},
		{"from A to B", onlyA, onlyB, []fault.ID{4}},
		{"from the net", onTCP, all, []fault.ID{3}},
		{"what a rule takes but does not name", fault.Only(nidB), onlyB, nil},
		{"to A", all, onlyA, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, k := range []fault.Kind{fault.Drop, fault.Delay} {
				r := fault.New(1)
				for _, p := range pairs {
					rule := fault.Rule{Kind: k, Rate: 1, Source: p[0], Dest: p[1]}
					if k == fault.Delay {
						rule.Latency = time.Second
					}
					add(t, r, rule)
				}
				other := fault.Drop + fault.Delay - k
				if gone := r.Remove(other, all, all); gone != nil {
					t.Errorf("removing %s rules removed %v", other, gone)
				}
				if diff := cmp.Diff(c.want, r.Remove(k, c.source, c.dest)); diff != "" {
					t.Errorf("%s rules removed (-want +got):\n%s", k, diff)
				}
				left := r.List(k)
				if len(left) != len(pairs)-len(c.want) {
					t.Errorf("%d %s rules left, want %d", len(left), k, len(pairs)-len(c.want))
				}
				if r.Active() != (len(left) != 0) {
					t.Errorf("active %t with %d rules", r.Active(), len(left))
				}
			}
		})
	}
}

// lnet-core 11.2
func TestHoldForTheLatency(t *testing.T) {
	r := with(t,
		fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 11 * time.Second, Messages: fault.Get},
		fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 3 * time.Second, Messages: fault.Put},
		fault.Rule{Kind: fault.Delay, Rate: 1, Latency: math.MaxInt64, Messages: fault.Ack},
	)
	for _, c := range []struct {
		typ   lnet.MsgType
		until int64
		by    fault.ID
		hold  bool
	}{
		{lnet.MsgGet, 5*second + 11*second, 1, true},
		{lnet.MsgPut, 5*second + 3*second, 2, true},
		{lnet.MsgAck, math.MaxInt64, 3, true},
		{lnet.MsgReply, 0, 0, false},
	} {
		until, by, hold := r.Hold(ofType(c.typ), 5*second)
		if until != c.until || by != c.by || hold != c.hold {
			t.Errorf("%s: held %t until %d by %d, want %t until %d by %d", c.typ, hold, until, by, c.hold, c.until, c.by)
		}
		if r.DropArrival(ofType(c.typ), 5*second) {
			t.Errorf("%s: dropped", c.typ)
		}
	}
}

// lnet-core 11.2
func TestDelayByRateAndByInterval(t *testing.T) {
	held := func(rule fault.Rule) (n int) {
		rule.Kind, rule.Latency = fault.Delay, time.Second
		r := with(t, rule)
		for i := range int64(1000) {
			if _, _, hold := r.Hold(aPut(), 1+i*second/10); hold {
				n++
			}
		}
		return n
	}
	if n := held(fault.Rule{Rate: 4}); n != 250 {
		t.Errorf("rate 4: %d of 1000 messages held", n)
	}
	if n := held(fault.Rule{Interval: 5 * time.Second}); n < 19 || n > 20 {
		t.Errorf("interval 5 s: %d messages held in 100 s", n)
	}
}

// A holder that works as described at Hold: no message is left behind when rules are
// added and removed while messages are held.
//
// lnet-core 11.2
func TestRemoveReleasesWhatARuleHolds(t *testing.T) {
	r := fault.New(1)
	var mu sync.Mutex
	held := make(map[fault.ID]int)
	taken, released := 0, 0
	remove := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range r.Remove(fault.Delay, fault.NIDFilter{}, fault.NIDFilter{}) {
			released += held[id]
			delete(held, id)
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := range int64(1000) {
				mu.Lock()
				if _, by, hold := r.Hold(aPut(), 1+i); hold {
					held[by]++
					taken++
				}
				mu.Unlock()
			}
		})
	}
	for range 100 {
		add(t, r, fault.Rule{Kind: fault.Delay, Rate: 1, Latency: time.Hour})
		remove()
	}
	wg.Wait()
	if len(held) != 0 || taken != released {
		t.Errorf("%d messages taken, %d released, %d rules still hold some", taken, released, len(held))
	}
}

func TestNothingIsHitWithoutRules(t *testing.T) {
	r := fault.New(1)
	if r.Active() {
		t.Error("active")
	}
	_, fail := r.FailSend(aPut(), 1)
	_, _, hold := r.Hold(aPut(), 1)
	if r.DropArrival(aPut(), 1) || fail || hold || r.Fails(nidA) {
		t.Error("a message was hit")
	}
	if len(r.List(fault.Drop))+len(r.List(fault.Delay))+len(r.List(9)) != 0 {
		t.Error("rules in the list")
	}
	if r.Remove(9, fault.NIDFilter{}, fault.NIDFilter{}) != nil {
		t.Error("rules removed")
	}
}

func TestChecksAllocateNothing(t *testing.T) {
	busy := with(t,
		fault.Rule{Kind: fault.Drop, Rate: 7},
		fault.Rule{Kind: fault.Drop, Interval: time.Microsecond, Statuses: fault.RandomStatus},
		fault.Rule{Kind: fault.Drop, Interval: time.Second, Random: true},
		fault.Rule{Kind: fault.Delay, Rate: 3, Latency: time.Second},
		fault.Rule{Kind: fault.Delay, Interval: time.Microsecond, Latency: time.Second},
	)
	if err := busy.FailNID(nidA, fault.Forever); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*fault.Rules{"no rules": fault.New(1), "many rules": busy} {
		m := aPut()
		now := int64(1)
		got := testing.AllocsPerRun(1000, func() {
			now += 100
			r.Active()
			r.DropArrival(m, now)
			r.FailSend(m, now)
			r.Hold(m, now)
			r.Fails(nidA)
		})
		if got != 0 {
			t.Errorf("%s: %v allocations per message, want 0", name, got)
		}
	}
}

// All methods concurrently, for the race detector. The counters match the hits.
func TestConcurrentUse(t *testing.T) {
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 2})
	var wg sync.WaitGroup
	const workers, each = 4, 500
	var dropped [workers]int
	for w := range workers {
		wg.Go(func() {
			for i := range int64(each) {
				if r.DropArrival(aPut(), 1+i) {
					dropped[w]++
				}
				r.Hold(aPut(), 1+i)
				r.FailSend(aPut(), 1+i)
				r.Fails(nidA)
				r.Active()
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			if err := r.Add(fault.Rule{Kind: fault.Delay, Rate: 1, Latency: 1}, 1); err != nil {
				t.Error(err)
			}
			if err := r.FailNID(nidA, 3); err != nil {
				t.Error(err)
			}
			r.List(fault.Delay)
			r.Remove(fault.Delay, fault.NIDFilter{}, fault.NIDFilter{})
		}
	})
	wg.Wait()
	total := 0
	for _, n := range dropped {
		total += n
	}
	c := one(t, r, fault.Drop).Counts
	if total != workers*each/2 || c.Hits != uint64(total) || c.Matched != workers*each {
		t.Errorf("%d of %d messages dropped, counts %+v", total, workers*each, c)
	}
}

// BenchmarkNoRules measures the cost per message on a node without rules.
func BenchmarkNoRules(b *testing.B) {
	r := fault.New(1)
	for b.Loop() {
		if r.Active() {
			b.Fatal("active")
		}
	}
}
