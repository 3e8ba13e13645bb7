package socklnd

import (
	"fmt"
	"testing"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// TestTheEndOfAnOldConnectionLeavesLaterSets: when a connection ends that is older than the peer's
// current set, only that one ends, and the node gets ConnectionsLost, not PeerDown. When one of the
// current set ends, older ones end as well, because the peer closes all connections that it had at
// that time.
func TestTheEndOfAnOldConnectionLeavesLaterSets(t *testing.T) {
	for _, old := range []bool{true, false} {
		t.Run(fmt.Sprint("the old one ends ", old), func(t *testing.T) {
			n := start(t, nil)
			p := newPuppet(n)
			bulk := p.connect(protocol.BulkOut)
			control := p.connect(protocol.Control) // begins a new set
			n.awaitSettled(p.id())
			if !old {
				_ = control.Close()
				bulk.ends()
				n.awaitGone(p.id())
				return
			}
			_ = bulk.Close()
			if got := await(t, n.lost, "ConnectionsLost"); got != p.nid() {
				t.Errorf("connections with %s are lost, want %s", got, p.nid())
			}
			n.awaitState(p.id(), "the end of the old connection", func(q *peer) bool { return len(q.conns) == 1 })
			control.put(10)
			n.arrival()
			s := n.put(p.id(), 10)
			control.receive()
			s.done()
			if len(n.lost)+len(n.down) > 0 {
				t.Errorf("%d times more, and PeerDown %d times", len(n.lost), len(n.down))
			}
		})
	}
}
