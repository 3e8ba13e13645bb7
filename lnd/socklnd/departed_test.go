package socklnd

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

func process(k int) lnet.ProcessID {
	return lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, uint32(k)), PID: lnet.PIDLustre}
}

// TestClaimedNIDsAreKeptApart checks which departed peers are recorded as Home, that is, with the
// NID of the address they called from. NIDs that are claimed from another address are not. A peer
// that was Home stays so, even if another address claims its NID.
func TestClaimedNIDsAreKeptApart(t *testing.T) {
	n := start(t, nil)
	host, friend := newPuppet(n), newPuppet(n)
	friend.visits()
	visitAs := func(k lnet.ProcessID) {
		h := host.hello(1)
		h.Src = k.NID
		w := host.dial()
		w.send(host.request())
		w.say(h)
		w.hello()
		_ = w.Close()
		n.awaitGone(k)
	}
	for k := range 5 {
		visitAs(process(10<<24 + k))
	}
	visitAs(friend.id())
	host.visits()
	recall := func(id lnet.ProcessID) (r peering.Record) {
		n.Locked(func() { r, _ = n.Departed.Recall(id, time.Now()) })
		return r
	}
	for k := range 5 {
		if r := recall(process(10<<24 + k)); r.Home || !r.Incarnations.Any() {
			t.Errorf("claimed NID %d: remembered as %+v", k, r)
		}
	}
	for _, p := range []*puppet{host, friend} {
		if r := recall(p.id()); !r.Home {
			t.Errorf("%s does not count as at home", p.nid())
		}
	}
}
