//go:build !race

// This test measures memory, which the race detector changes.

package clients

import (
	"testing"

	"github.com/lnetd/lnetd/internal/testing/cost"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// An idle client with a TM and a buffer takes little of lnetd's memory, including the stacks of its goroutines
// and what the client's end takes in this process.
func TestIdleClientsAreSmall(t *testing.T) {
	w := newWorld(t, nil)
	const entries, clients = 64, 48
	var rings []*ring
	join := func(n int) {
		for range n {
			p := w.join()
			a := p.share(4096)
			p.register(protocol.Range{Area: a.id, Length: 1024})
			rings = append(rings, p.start(34, uint32(1+len(rings)), entries))
		}
		for _, r := range rings {
			r.asleep()
		}
	}
	join(1)
	before := cost.Memory()
	join(clients)
	cost.Bound(t, "idle client", cost.Memory()-before, clients, 32<<10)
	for _, c := range []int{entries, 1024} {
		t.Logf("ring of %d completions: %d bytes", c,
			shm.FileSize(shared.Sizes{Submissions: protocol.SubmissionsPerCompletion * c, Completions: c}))
	}
}
