package discovery

import (
	"runtime"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// manyNID returns the NID of one of very many nodes on a net.
func manyNID(net, node int) lnet.NID {
	return lnet.NIDFromNumber(lnet.Net(lnet.TypeTCP)<<16|lnet.Net(net), 10<<24|uint32(node))
}

func contentOf(seq uint32, nids ...lnet.NID) Content {
	c := Content{Info: lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery, Seq: seq,
	}}
	for _, nid := range nids {
		c.Info.NIs = append(c.Info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
	}
	c.Size = c.Info.Size()
	return c
}

// answer steps the machine until it rests, and answers every ping and push of a peer with
// two NIDs. It returns the maximum number of actions of one step.
func answer(t *testing.T, m *Machine) (most int) {
	t.Helper()
	for {
		actions := m.Actions()
		most = max(most, len(actions))
		for _, a := range actions {
			switch a := a.(type) {
			case SendPing:
				node := int(a.To.Number() & 0xffffff)
				m.PingReply(0, a.ID, Reply{
					To: manyNID(0, 0), From: a.To, Content: contentOf(2, manyNID(0, node), manyNID(1, node)),
				})
			case SendPush:
				m.PushAcked(0, a.ID)
			}
		}
		if len(actions) == 0 {
			if !m.HasWork() {
				return most
			}
			m.Step(0)
		}
	}
}

// TestManyPeers discovers 10,000 peers with two NIDs each, and sends all of them a push
// after a local change. The cost per peer and the work per step are bounded.
//
// discovery 2.4 age, 4.4 told, 6.1 pieces
func TestManyPeers(t *testing.T) {
	const peers = 10_000
	memory := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := memory()
	m := New(Config{Local: Local{Seq: 2}})
	most := 0
	for node := 1; node <= peers; node++ {
		m.Park(0, manyNID(node%2, node), Key(node))
		most = max(most, answer(t, m))
	}
	if m.Len() != peers {
		t.Fatalf("%d peers", m.Len())
	}
	each := (memory() - before) / peers
	t.Logf("%d bytes for a peer with two NIDs and its View", each)
	if each > 1500 {
		t.Errorf("%d bytes for a peer", each)
	}
	for v := range m.Peers() {
		if v.MustWait(m.Local()) {
			t.Fatalf("not discovered: %s", v)
		}
	}
	m.SetSeq(0, 3, nil)
	told := 0
	for m.HasWork() {
		m.Step(0)
		most = max(most, len(m.Actions()))
		told++
	}
	t.Logf("%d steps to tell all, at most %d actions in one", told, most)
	if most > 8*mergeChunk {
		t.Errorf("%d actions in one step", most)
	}
	runtime.KeepAlive(m)
}

// TestLargePeer merges a peer with the maximum number of NIDs, and releases as many
// messages. Both are done in steps.
//
// discovery 5.3 sent, 6.1 pieces
func TestLargePeer(t *testing.T) {
	m := New(Config{Local: Local{Seq: 2}})
	nids := []lnet.NID{manyNID(0, 1)}
	for k := range lnet.InterfacesMax - 2 {
		nids = append(nids, manyNID(k%7, 2+k))
	}
	for k := range 10_000 {
		m.Park(0, nids[0], Key(k))
	}
	m.Actions()
	m.Step(0)
	m.Actions()
	m.PingReply(0, 1, Reply{To: manyNID(0, 0), From: nids[0], Content: contentOf(2, nids...)})
	released := 0
	for m.HasWork() {
		m.Step(0)
		actions := m.Actions()
		if len(actions) > 3*mergeChunk {
			t.Fatalf("%d actions in one step", len(actions))
		}
		for _, a := range actions {
			switch a := a.(type) {
			case SendPush:
				m.PushAcked(0, a.ID)
			case Release:
				if len(a.Keys) > releaseChunk {
					t.Fatalf("%d messages released in one step", len(a.Keys))
				}
				released += len(a.Keys)
			}
		}
	}
	if released != 10_000 {
		t.Errorf("%d messages released", released)
	}
	if got := len(m.Find(nids[0]).NIDs); got != len(nids) {
		t.Errorf("%d NIDs, want %d", got, len(nids))
	}
	if err := m.check(); err != nil {
		t.Error(err)
	}
}

// TestMustWaitCostsNothing checks that MustWait, which is called for every message, does
// not allocate.
//
// discovery 3 ready, 3 push, 3 disabled, 5.1 (4)
func TestMustWaitCostsNothing(t *testing.T) {
	v := &View{State: MultiRail | Discovered | NIDsUpToDate, AckedSeq: 2}
	l := Local{Seq: 2}
	if n := testing.AllocsPerRun(100, func() {
		if v.MustWait(l) {
			t.Fatal("waits")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !v.MustWait(Local{Seq: 3}) {
		t.Error("does not wait, though the peer is to be told of us")
	}
	if !(*View)(nil).MustWait(l) {
		t.Error("a message to an unknown peer does not wait")
	}
	if v.Disabled(l) || !v.Disabled(Local{Mode: Off, Seq: 2}) {
		t.Error("discovery is disabled for a Multi-Rail peer if, and only if, it is off here")
	}
}

func BenchmarkMustWait(b *testing.B) {
	v := &View{State: MultiRail | Discovered | NIDsUpToDate, AckedSeq: 2}
	l := Local{Seq: 2}
	for b.Loop() {
		if v.MustWait(l) {
			b.Fatal("waits")
		}
	}
}
