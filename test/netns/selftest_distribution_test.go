package netns

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// Given four clients and three servers, when tests are distributed over them in different ways,
// then each client sends only to the servers that the distribution assigns to it, and each server
// receives what was sent to it.
//
// selftest 7.5 (2)
func TestSelftestDistribution(t *testing.T) {
	t.Parallel()
	const concurrency, loop, size = 2, 10, 16 << 10
	// Without discovery, nodes exchange only the messages of the tests.
	b := newTestbed(t, 4, 3, &configuration{patient: true, alone: true}, longTimeouts...)
	u := b.session(t)
	for k, c := range []struct {
		distribute string
		servers    [4][]int // of each client
	}{
		{"1:1", [4][]int{{0}, {1}, {2}, {0}}},
		{"2:1", [4][]int{{0}, {0}, {1}, {1}}},
		{"3:1", [4][]int{{0}, {0}, {0}, {1}}},
		{"1:2", [4][]int{{0, 1}, {2, 0}, {1, 2}, {0, 1}}},
		{"2:2", [4][]int{{0, 1}, {0, 1}, {2, 0}, {2, 0}}},
		{"1:3", [4][]int{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
		{"100:1", [4][]int{{0}, {0}, {0}, {0}}},
	} {
		batch := fmt.Sprintf("b%d", k)
		u.addTests(t, batch, fmt.Sprintf(
			"--concurrency %d --loop %d --distribute %s --from c --to s brw write check=full size=%d", concurrency, loop, c.distribute, size))
		var before [3]api.LstCounters
		for s, server := range b.servers {
			before[s] = server.selftest(t).Counters
		}
		puts := b.puts(t)

		u.run(t, batch)
		u.wantStopped(t, batchPatience, batch)

		var wantPuts [4][3]uint64
		var want [3]api.LstCounters
		for i, list := range c.servers {
			for _, s := range list {
				wantPuts[i][s] = concurrency * loop
				want[s].Received += concurrency * loop
				want[s].BulkGet += concurrency * loop * size
			}
		}
		gotPuts := b.puts(t)
		for i := range gotPuts {
			for s := range gotPuts[i] {
				gotPuts[i][s] -= puts[i][s]
			}
		}
		if diff := cmp.Diff(wantPuts, gotPuts); diff != "" {
			t.Errorf("--distribute %s: PUTs from clients to servers (-want +got):\n%s", c.distribute, diff)
		}
		for s, server := range b.servers {
			if got := since(server.selftest(t).Counters, before[s]); got != want[s] {
				t.Errorf("--distribute %s: server %d counts %+v, want %+v", c.distribute, s, got, want[s])
			}
		}
	}
	u.wantNoErrors(t)
	u.endSession(t, b.all())
	b.end(t)
}

// puts returns the number of PUTs, which are requests, from each client to each server.
func (b *testbed) puts(t *testing.T) (n [4][3]uint64) {
	t.Helper()
	for i, active := range b.clients {
		peers := ask(t, active.daemon, func(ctx context.Context, c *client.Client) ([]api.Peer, error) { return c.Peers(ctx, "") })
		for s, server := range b.servers {
			for _, p := range peers {
				k := slices.IndexFunc(p.NIs, func(ni api.PeerNI) bool { return ni.NID.String() == server.host.nid() })
				if k >= 0 {
					n[i][s] = p.NIs[k].Sent.Put
				}
			}
		}
	}
	return n
}
