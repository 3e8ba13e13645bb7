package perf

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/internal/load/ports"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// fewExchanges is the number of exchanges in a round of a test: on a busy machine each may take milliseconds.
const fewExchanges = 16

// freePort returns a value for Config.Port: it and the next port are free at the given addresses.
func freePort(tb testing.TB, addresses ...netip.Addr) int {
	tb.Helper()
	var names []string
	for _, a := range addresses {
		names = append(names, a.String())
	}
	port, err := ports.Free(2, names...)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// pair starts two nodes in this process. The second one offers memory.
func pair(tb testing.TB, credits int) (client, server *lnetNode) {
	tb.Helper()
	addresses := [2]netip.Addr{netip.MustParseAddr("127.11.0.1"), netip.MustParseAddr("127.11.0.2")}
	c := Config{Port: freePort(tb, addresses[:]...)}
	start := func(address netip.Addr) *lnetNode {
		o, err := startNode(tb.Context(), &c, address, credits)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := o.close(); err != nil {
				tb.Error(err)
			}
		})
		return o
	}
	client, server = start(addresses[0]), start(addresses[1])
	if err := server.attach(); err != nil {
		tb.Fatal(err)
	}
	return client, server
}

var steady = []struct {
	name string
	x    exchange
}{
	{"PUT+ACK 0 B", exchange{window: 1}},
	{"PUT+ACK 96 B", exchange{in: 96, window: 1}},
	{"PUT+ACK 4096 B", exchange{in: 4096, window: 1}},
	{"PUT+ACK 96 B, caller blocks", exchange{in: 96, window: 1, blocking: true}},
	{"PUT+ACK 96 B, 64 in flight", exchange{in: 96, window: 64}},
	{"GET 4096 B", exchange{out: 4096, window: 1}},
	{"GET 1 MiB, 8 in flight", exchange{out: 1 << 20, window: 8}},
}

// TestSteadyStateAllocatesNothing sends messages of each kind through two complete nodes and TCP, and
// counts allocations on both sides.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	client, server := pair(t, 64)
	for _, s := range steady {
		t.Run(s.name, func(t *testing.T) {
			x := s.x
			n := [2]int{testenv.Fewer(300), testenv.Fewer(3000)}
			if x.out == 1<<20 {
				n = [2]int{testenv.Fewer(160), testenv.Fewer(800)}
			}
			run := func(n int) uint64 {
				x.n = n
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := client.run(t.Context(), server.nid, x, nil); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs
			}
			run(n[0]) // pools grow to their working size
			// A run allocates its descriptors, timers run at the same time, and a loaded machine
			// sometimes starts a drainer. This does not grow with the number of messages. An allocation
			// per message would.
			few, many := run(n[0]), run(n[1])
			if per := (float64(many) - float64(few)) / float64(n[1]-n[0]); per > 0.2 && !testenv.Race {
				t.Errorf("%.3f allocations per message, want 0", per)
			}
		})
	}
}

// BenchmarkSteadyState measures time and allocations of both sides together.
func BenchmarkSteadyState(b *testing.B) {
	for _, s := range steady {
		b.Run(s.name, func(b *testing.B) {
			client, server := pair(b, 64)
			x := s.x
			x.n = 1000
			if _, err := client.run(b.Context(), server.nid, x, nil); err != nil {
				b.Fatal(err)
			}
			x.n = b.N
			b.SetBytes(int64(x.in + x.out))
			b.ReportAllocs()
			b.ResetTimer()
			if _, err := client.run(b.Context(), server.nid, x, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}
