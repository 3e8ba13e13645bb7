package socklnd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
)

// TestAStallIsToldWhenItIsNews shows a peer that does not answer: the node is told
// once, and again when it has sent something more, and when it is over.
func TestAStallIsToldWhenItIsNews(t *testing.T) {
	inSilence(t, func(t *testing.T, n *node, _ *silence) {
		begin := time.Now()
		peer := mute(1)
		told := func(when string, want ...stall) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, n.toldOfStalls(), cmp.AllowUnexported(stall{}), equalNIDs); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		n.put(peer, 0)
		time.Sleep(3 * time.Second)
		told("for a while", stall{peer.NID, begin})
		for range 2 {
			n.put(peer, 0)
			time.Sleep(2 * time.Second)
			told("with one more message", stall{peer.NID, begin})
		}
		n.Recall(peer.NID, func(*lnd.Tx) bool { return true })
		time.Sleep(2 * time.Second)
		n.toldOfStalls() // what has been taken back may have been replaced
		time.Sleep(time.Minute)
		told("when nothing is left", stall{peer.NID, time.Time{}})
	})
}
