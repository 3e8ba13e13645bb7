package netns

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/selftest/report"
)

// bulks are sizes with the offsets for them. Data may not touch more pages than its length needs.
var bulks = []struct {
	words  string
	length int
}{
	{"size=1K", 1 << 10},
	{"size=1024 off=3072", 1 << 10},
	{"s=4k off=4096", 4 << 10},
	{"size=20000 off=480", 20000},
	{"size=64K", 64 << 10},
	{"size=256K off=8192", 256 << 10},
	{"size=1048568 off=8", mebibyte - 8},
	{"size=1M", mebibyte},
}

// Every size is combined with each of these. The concurrencies are used in turn.
var (
	bulkOps       = []string{"read", "write"}
	bulkChecks    = []string{"", "check=simple", "check=full", "check=discard"}
	concurrencies = []int{64, 1, 16, 2, 32, 8, 4}
)

// bulkVolume is about how many bytes a test transfers. loopMost keeps tests of small sizes short.
const (
	bulkVolume = 4 * mebibyte
	loopMost   = 20
)

// batchPatience is the time limit of a batch that ends by itself.
const batchPatience = patientTransaction * time.Second

// Given three lnetds on one network, or with a router before the server, when a user at the first
// one makes the second one send pings, and bulk data in both directions, to the third, with all
// sizes, offsets, checks and concurrencies, then nothing fails. The client has made the requested
// number of requests in each test, and the server has received as many, and as much data.
//
// selftest 3 counters, 5 (1), 11 (2)
func TestSelftest(t *testing.T) {
	t.Parallel()
	t.Run("one network", func(t *testing.T) {
		t.Parallel()
		testSelftest(t, newTestbed(t, 1, 1, &configuration{patient: true}, longTimeouts...))
	})
	t.Run("through a router", func(t *testing.T) {
		t.Parallel()
		testSelftest(t, newRoutedBed(t, 1, 1, longTimeouts...))
	})
}

func testSelftest(t *testing.T, b *testbed) {
	t.Helper()
	u := b.session(t)
	var moved uint64
	var routed api.Counters
	if b.router != nil {
		routed = b.router.counters(t)
	}
	for k := range bulks {
		moved += testBulk(t, b, u, k)
	}
	if b.router != nil {
		now := b.router.counters(t)
		if n := now.RoutedBytes - routed.RoutedBytes; n < moved {
			t.Errorf("the router passed %d bytes on, want at least %d", n, moved)
		}
	}
	t.Logf("%.1f MB of bulk data", float64(moved)/1e6)
	u.wantNoErrors(t)
	u.endSession(t, b.all())
	b.end(t)
}

// testBulk runs a batch of tests with the k-th size, and returns how many bytes it has transferred.
func testBulk(t *testing.T, b *testbed, u user, k int) uint64 {
	t.Helper()
	active, passive := b.clients[0], b.servers[0]
	batch := fmt.Sprintf("b%d", k)
	var tests []string
	var requests []int // by test
	total := api.LstCounters{}
	add := func(kind string, concurrency, loop int) {
		tests = append(tests, fmt.Sprintf("--concurrency %d --loop %d --from c --to s %s", concurrency, loop, kind))
		requests = append(requests, concurrency*loop)
		total.Received += uint32(concurrency * loop)
	}
	for i, op := range bulkOps {
		for j, check := range bulkChecks {
			concurrency := concurrencies[(k+i*len(bulkChecks)+j)%len(concurrencies)]
			loop := min(max(bulkVolume/bulks[k].length/concurrency, 1), loopMost)
			add(fmt.Sprintf("brw %s %s %s", op, check, bulks[k].words), concurrency, loop)
			if n := int64(concurrency*loop) * int64(bulks[k].length); op == "read" {
				total.BulkPut += uint64(n)
			} else {
				total.BulkGet += uint64(n)
			}
		}
	}
	add("ping", concurrencies[k%len(concurrencies)], loopMost)
	u.addTests(t, batch, tests...)

	atClient, atServer := active.selftest(t).Counters, passive.selftest(t).Counters
	u.run(t, batch)
	u.wantStopped(t, batchPatience, batch)

	// The console has sent no requests to the server since.
	if got := since(passive.selftest(t).Counters, atServer); got != total {
		t.Errorf("%s: the server counts %+v, want %+v", batch, got, total)
	}
	status := active.selftest(t)
	got := since(status.Counters, atClient)
	got.Received = 0 // requests of the console
	if want := (api.LstCounters{Sent: total.Received}); got != want {
		t.Errorf("%s: the client counts %+v, want %+v", batch, got, want)
	}
	id := ask(t, u.at, func(ctx context.Context, c *client.Client) (report.BatchInfo, error) {
		return c.LstBatch(ctx, api.LstNamed{Key: api.LstKey(u.key), Name: batch})
	}).ID
	seen := 0
	for _, v := range status.Session.Tests {
		if v.Batch != id {
			continue
		}
		want := uint64(requests[v.Index-1])
		if !v.Client || v.Active != 0 || v.Latency == nil || v.Latency.Count != want {
			t.Errorf("%s: test %q on the client: %+v, want %d requests", batch, tests[v.Index-1], v, want)
		}
		seen++
	}
	if seen != len(tests) {
		t.Errorf("%s: the client has %d tests, want %d", batch, seen, len(tests))
	}
	return total.BulkGet + total.BulkPut
}
