package socklnd

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// TestASendAfterDisconnectDoesNotWaitForAPauseToEnd shows that Disconnect takes
// the pause after a race along with the attempt that it belonged to: what is
// sent afterwards connects anew.
func TestASendAfterDisconnectDoesNotWaitForAPauseToEnd(t *testing.T) {
	n := start(t, func(c *Config) { c.MinReconnect, c.MaxReconnect = time.Hour, time.Hour })
	p := newPuppet(n).listen()
	before := n.put(p.id(), 10)
	p.decline()
	n.awaitTable("pausing", func() bool {
		peer := n.peers[p.id()]
		peer.mu.Lock()
		defer peer.mu.Unlock()
		return peer.opening && !peer.backoff.Ready(time.Now())
	})
	n.Disconnect(p.nid())
	after := n.put(p.id(), 10)
	before.fails(lnd.StatusLocalAborted)
	p.take().receive()
	after.done()
}
