//go:build !race

// These tests measure memory and wake-ups, which the race detector changes.

package socklnd

import (
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/cost"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// callAll makes peers connect to the node with three connections each, and exchange a message on each that
// carries one, so that buffers have the size that they keep.
func callAll(n *node, peers int) (connections int) {
	n.t.Helper()
	for range peers {
		p := newPuppet(n)
		for _, typ := range []protocol.ConnType{protocol.Control, protocol.BulkIn, protocol.BulkOut} {
			w := p.connect(typ)
			connections++
			if typ == protocol.BulkIn {
				continue
			}
			w.put(100)
			n.arrival()
		}
	}
	return connections
}

// An idle connection takes less than 16 KiB, with its share of the peer's record, the stack of its reader, and
// what the peer's end takes in this process.
func TestIdleConnectionsAreSmall(t *testing.T) {
	n := start(t, nil)
	callAll(n, 1)
	before := cost.Memory()
	connections := callAll(n, 64)
	cost.Bound(t, "idle connection", cost.Memory()-before, connections, 16<<10)
}

// While nothing happens, the reaper alone runs, however many connections there are. Without keepalives, which
// the specification demands of each peer (socklnd, section 11), it only looks.
func TestIdleConnectionsHaveNoTimers(t *testing.T) {
	wakeups := func(peers int) (count uint64) {
		t.Run(fmt.Sprint(peers, " peers"), func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				n := start(t, func(c *Config) { m.use(c); c.Keepalive = 0 })
				callAll(n, peers)
				time.Sleep(2 * patience) // until all deadlines of handshakes and puppets are over
				count = cost.Wakeups(func() { time.Sleep(time.Minute) })
			})
		})
		return count
	}
	few, many := wakeups(2), wakeups(100)
	t.Logf("wake-ups in a minute: %d with 2 peers, %d with 100", few, many)
	if many > few+100 { // a wake-up of each connection would be 294 more
		t.Errorf("%d wake-ups with 100 peers, %d with 2", many, few)
	}
}
