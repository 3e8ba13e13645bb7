package socklnd

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// lived are the lives of a peer that was met once.
func lived(life uint64) protocol.Lives {
	var l protocol.Lives
	l.Meet(life)
	return l
}

func process(k int) lnet.ProcessID {
	return lnet.ProcessID{NID: lnet.NIDFromNumber(tcp, uint32(k)), PID: lnet.PIDLustre}
}

// remembered counts all entries.
func (d *departed) remembered() int {
	return d.home.Len() + d.claimed.Len()
}

func TestDepartedAreRecalledOnce(t *testing.T) {
	var d departed
	if l, home := d.recall(process(1)); l.Any() || home {
		t.Error("somebody was there at the beginning")
	}
	for k, home := range []bool{true, false} {
		d.keep(process(k), lived(5), home)
		l, atHome := d.recall(process(k))
		if atHome != home || l.Meet(5) || !l.Meet(6) {
			t.Errorf("recalled %+v, at home %v, want life 5, %v", l, atHome, home)
		}
		if l, _ := d.recall(process(k)); l.Any() {
			t.Errorf("recalled twice: %+v", l)
		}
	}
}

func TestDepartedThatNobodyIsToldOfAreNotKept(t *testing.T) {
	var d departed
	d.keep(process(1), protocol.Lives{}, true)
	d.keep(lnet.ProcessID{NID: process(2).NID, PID: lnet.PIDUserFlag | 600}, lived(1), true)
	d.keep(lnet.ProcessID{NID: process(3).NID, PID: 77}, lived(1), true)
	if got := d.remembered(); got != 0 {
		t.Errorf("%d are remembered", got)
	}
	d.keep(process(4), lived(1), true)
	if l, _ := d.recall(lnet.ProcessID{NID: process(4).NID, PID: 77}); l.Any() {
		t.Error("another process was taken for the peer")
	}
}

// TestDepartedAreBounded shows that the memory stops growing, that the latest
// are there, and that any number of claimed NIDs leaves alone who was met at
// home.
func TestDepartedAreBounded(t *testing.T) {
	var d departed
	const friend, flood = 1, 10 * rememberedAtHome
	d.keep(process(friend), lived(5), true)
	for k := range flood {
		d.keep(process(1000+k), lived(1), false)
	}
	if got, most := d.remembered(), 1+2*rememberedClaimed; got > most {
		t.Errorf("%d are remembered of those who claimed a NID, at most %d may be", got, most)
	}
	if l, home := d.recall(process(friend)); !l.Any() || !home {
		t.Error("the friend was forgotten for those who claimed a NID")
	}
	for k := range flood {
		d.keep(process(1000+k), lived(1), true)
	}
	if got, most := d.remembered(), 2*rememberedAtHome+2*rememberedClaimed; got > most {
		t.Errorf("%d are remembered, at most %d may be", got, most)
	}
	for k := flood - rememberedAtHome; k < flood; k++ {
		if l, _ := d.recall(process(1000 + k)); !l.Any() {
			t.Fatalf("number %d of %d was forgotten", k, flood)
		}
	}
}

// TestClaimedNIDsAreKeptApart shows who counts as at home: neither many names
// from one address nor a name of somebody else's does, and who was met at home
// stays so.
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := n.departed.claimed.Len(); got != 5 {
		t.Errorf("%d are remembered as claimed, want 5", got)
	}
	for _, p := range []*puppet{host, friend} {
		if _, home := n.departed.recall(p.id()); !home {
			t.Errorf("%s does not count as at home", p.nid())
		}
	}
}

// TestFailedCallsAreBounded shows that any number of peers that nobody can call
// take bounded memory, and that the latest are left alone.
func TestFailedCallsAreBounded(t *testing.T) {
	var d departed
	now := time.Now()
	b := protocol.Backoff{Min: time.Second, Max: time.Minute}
	b.Fail(now, 0)
	const many = 10 * rememberedFailed
	for k := range many {
		d.keepFailed(process(k), b)
	}
	if got := d.failed.Len(); got > 2*rememberedFailed {
		t.Errorf("%d are remembered", got)
	}
	if b := d.recallFailed(process(many-1), now); b.Ready(now) {
		t.Error("the last one may be called at once")
	}
	if b := d.recallFailed(process(many-2), now.Add(2*time.Minute)); !b.Next().IsZero() {
		t.Error("a failure of long ago counts")
	}
	d.keepFailed(process(many), protocol.Backoff{})
	if _, found := d.failed.Take(process(many)); found {
		t.Error("a peer that has not failed is remembered")
	}
}
