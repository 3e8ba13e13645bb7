package perf

import (
	"math"
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// machines starts a sender and its echo in this process.
func machines(tb testing.TB, delivery tmhost.Delivery) *sender {
	tb.Helper()
	client, server := pair(tb, 64)
	if err := server.startEchoes(tb.Context(), tmEchoes, deliveries...); err != nil {
		tb.Fatal(err)
	}
	s, err := client.newSender(tb.Context(), delivery, server.nid, tmEchoes)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

var transfers = []struct {
	name     string
	delivery tmhost.Delivery
	x        exchange
}{
	{"message, async", tmhost.Async, exchange{in: 96, out: 96, window: 1}},
	{"message, 64 in flight, async", tmhost.Async, exchange{in: 96, out: 96, window: 64}},
	{"message, 64 in flight, poll", tmhost.Poll, exchange{in: 96, out: 96, window: 64}},
	{"bulk is fetched, async", tmhost.Async, exchange{in: 1 << 20, window: 8}},
	{"bulk is brought, async", tmhost.Async, exchange{out: 1 << 20, window: 8}},
}

// TestTransfersAllocateNothing runs messages and bulk between transfer machines, and counts allocations
// on both sides.
func TestTransfersAllocateNothing(t *testing.T) {
	for _, c := range transfers {
		t.Run(c.name, func(t *testing.T) {
			s := machines(t, c.delivery)
			x := c.x
			few, many := testenv.Fewer(600), testenv.Fewer(3000)
			if x.bulk() {
				few, many = testenv.Fewer(160), testenv.Fewer(800)
			}
			run := func(n int) float64 {
				x.n = n
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := s.run(t.Context(), x, nil); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return float64(after.Mallocs - before.Mallocs)
			}
			run(few) // pools grow to their working size
			// A full socket or a sleep costs an allocation, and their number depends on the machine. An
			// allocation per transfer shows in every try.
			least := math.Inf(1)
			for try := 0; try < 3 && least > 0.2; try++ {
				least = min(least, (-run(few)+run(many))/float64(many-few))
				if testenv.Race {
					return
				}
			}
			if least > 0.2 {
				t.Errorf("%.3f allocations per transfer, want 0", least)
			}
		})
	}
}

// BenchmarkTransfers measures time and allocations of both sides together.
func BenchmarkTransfers(b *testing.B) {
	for _, c := range transfers {
		b.Run(c.name, func(b *testing.B) {
			s := machines(b, c.delivery)
			x := c.x
			x.n = 1000
			if _, err := s.run(b.Context(), x, nil); err != nil {
				b.Fatal(err)
			}
			x.n = b.N
			b.SetBytes(int64(x.in + x.out))
			b.ReportAllocs()
			b.ResetTimer()
			if _, err := s.run(b.Context(), x, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}
