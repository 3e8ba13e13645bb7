package fault_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node/fault"
)

// lnet-core 11.1, 11.3
func TestParseStatus(t *testing.T) {
	for s, want := range map[string]fault.StatusMask{
		"local_interrupt": 1 << 1, "local_dropped": 1 << 2, "local_aborted": 1 << 3,
		"local_no_route": 1 << 4, "local_error": 1 << 5, "LOCAL_TIMEOUT": 1 << 6,
		"remote_error": 1 << 7, "Remote_Dropped": 1 << 8, "remote_timeout": 1 << 9,
		"network_timeout": 1 << 10, "random": 0xffffffff, "RANDOM": 0xffffffff,
	} {
		if got, err := fault.ParseStatus(s); err != nil || got != want {
			t.Errorf("%q: %#x, %v, want %#x", s, got, err, want)
		}
	}
	for _, s := range []string{"", "ok", "local dropped", "local_dropped,local_error", "status_11"} {
		if got, err := fault.ParseStatus(s); err == nil {
			t.Errorf("%q: %#x, want an error", s, got)
		}
	}
}

func TestStatusOfWhatIsNoFailureIsEmpty(t *testing.T) {
	for s, want := range map[lnd.Status]fault.StatusMask{
		lnd.StatusOK: 0, lnd.StatusLocalInterrupt: 2, lnd.StatusNetworkTimeout: 1 << 10, 11: 0, 31: 0, 200: 0,
	} {
		if got := fault.StatusOf(s); got != want {
			t.Errorf("%s: %#x, want %#x", s, got, want)
		}
	}
}

// drawn counts the statuses of n sends that all fail.
func drawn(t testing.TB, mask fault.StatusMask, n int) map[lnd.Status]int {
	t.Helper()
	r := with(t, fault.Rule{Kind: fault.Drop, Rate: 1, Statuses: mask})
	got := make(map[lnd.Status]int)
	for range n {
		s, fail := r.FailSend(aPut(), 1)
		if !fail {
			t.Fatal("a message passed a rule of rate 1")
		}
		got[s]++
	}
	return got
}

// A random status of 1 to 10 is rounded to the nearest enabled one. The frequency of each
// shows how many statuses are rounded to it.
//
// lnet-core 11.1
func TestSeveralStatusesAreDrawnAndRounded(t *testing.T) {
	for _, c := range []struct {
		name string
		mask fault.StatusMask
		want map[lnd.Status]int // out of 10
	}{
		{"one", 1 << 5, map[lnd.Status]int{5: 10}},
		{"the ends, a tie goes down", 1<<1 | 1<<10, map[lnd.Status]int{1: 5, 10: 5}},
		{"a tie at 2 goes down", 1<<1 | 1<<3, map[lnd.Status]int{1: 2, 3: 8}},
		{"neighbours", 1<<9 | 1<<10, map[lnd.Status]int{9: 9, 10: 1}},
		{"random", fault.RandomStatus, map[lnd.Status]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1}},
		{"all ten", 0x7fe, map[lnd.Status]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 10000
			got := drawn(t, c.mask, n)
			for s := range lnd.Status(12) {
				want := float64(c.want[s]) * n / 10
				if math.Abs(float64(got[s])-want) > n/50 {
					t.Errorf("%s: %d times, want about %.0f", s, got[s], want)
				}
			}
		})
	}
}

// lnet-core 11.1
func TestOnlyEnabledStatusesAreDrawn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mask := fault.StatusMask(rapid.Uint32Range(1, 0x3ff).Draw(rt, "mask") << 1)
		for s := range drawn(t, mask, 20) {
			if fault.StatusOf(s)&mask == 0 {
				rt.Fatalf("mask %#x: %s", mask, s)
			}
		}
	})
}
