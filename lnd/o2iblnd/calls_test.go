package o2iblnd_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// absent returns a NID with an address that no host has.
func absent(k int) lnet.NID {
	return lnet.NIDFromIP(o2ib, netip.AddrFrom4([4]byte{10, 9, byte(k >> 8), byte(k)}))
}

// sendToAbsent sends one message to each of count absent peers.
func (s *station) sendToAbsent(first, count int) {
	for k := first; k < first+count; k++ {
		s.send(absent(k), 1, 100)
	}
}

// waitsFor checks how many calls wait for a slot.
func (s *station) waitsFor(want uint64) {
	s.t.Helper()
	time.Sleep(time.Second) // for the keeper's ticks
	if n := counter(s, "waiting_calls"); n != want {
		s.t.Errorf("%d calls wait, want %d", n, want)
	}
}

// callFailures returns how often the station's calls have failed.
func (s *station) callFailures() lnd.CallFailureCounts { return s.i.(lnd.Caller).CallFailures() }

// TestCallsThatNothingWaitsFor: given calls that wait for a slot, when their messages are recalled
// or the peer is disconnected, then those peers are not called. The others are.
func TestCallsThatNothingWaitsFor(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a := newStation(t, f, 0, nil)
		a.sendToAbsent(0, peering.MaxCallsOfKind)
		a.waitsFor(0)
		a.sendToAbsent(1000, 3)
		a.waitsFor(3)
		a.i.Disconnect(absent(1000))
		a.waitsFor(2)
		a.i.Recall(absent(1001), func(*lnd.Tx) bool { return true })
		a.waitsFor(1)
		if sent, _ := a.outcome(); sent != 2 {
			t.Errorf("%d were completed, want 2", sent)
		}
		time.Sleep(20 * time.Second)
		a.waitsFor(0)
		if n := counter(a, "calls_total"); n != peering.MaxCallsOfKind+1 {
			t.Errorf("%d calls, want %d", n, peering.MaxCallsOfKind+1)
		}
		if diff := cmp.Diff(lnd.CallFailureCounts{lnd.CallUnreachable: peering.MaxCallsOfKind + 1}, a.callFailures()); diff != "" {
			t.Errorf("failed calls (-want +got):\n%s", diff)
		}
		a.close()
	})
}

// TestAClaimedNIDIsAStranger: given the maximum number of calls to strangers, then a peer that has
// called from its NID's address before is called at once. One that claimed another NID than its
// address waits.
func TestAClaimedNIDIsAStranger(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b, p := newStation(t, f, 0, nil), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		b.works(a)
		p.call(nidOf(0).IP(), encode(t, protocol.Message{
			Version: protocol.V2, Type: protocol.ConnReq, Src: absent(5000), SrcStamp: puppetStamp, Dst: nidOf(0),
			Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
		}))
		time.Sleep(time.Second)
		if n := counter(a, "connections"); n != 2 {
			t.Fatalf("%d connections, want 2", n)
		}
		p.proc.Kill()
		a.i.Disconnect(nidOf(1))
		time.Sleep(time.Second)
		a.outcome()
		a.sendToAbsent(0, peering.MaxCallsOfKind)
		a.waitsFor(0)
		a.send(absent(5000), 1, 100)
		a.waitsFor(1)
		a.send(nidOf(1), 1, 100)
		a.waitsFor(1)
		if sent, errs := a.outcome(); sent != 1 || len(errs) > 0 {
			t.Errorf("%d sent, %v", sent, errs)
		}
		a.close()
		b.close()
	})
}

// TestAPeerThatIsLostBetweenCalls: given a peer whose connection ends while another call to it
// waits for a slot, when no message waits for that call, then it is canceled and PeerDown is
// reported.
func TestAPeerThatIsLostBetweenCalls(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		p.acceptAll()
		a.sendToAbsent(0, peering.MaxCallsOfKind)
		a.waitsFor(0)
		a.send(p.nid, 1, 100) // the peer is a stranger, so the call waits
		a.waitsFor(1)
		p.call(nidOf(0).IP(), requestOf(t, 7))
		time.Sleep(time.Second)
		p.proc.Kill()
		time.Sleep(time.Second)
		if downs := a.told().downs; len(downs) != 1 || downs[0].Peer != p.nid {
			t.Errorf("PeerDown: %v", downs)
		}
		a.waitsFor(0)
		a.close()
	})
}

// TestCallFailures checks the reason under which each kind of rejection is counted.
func TestCallFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(p *puppet, m *protocol.Message) (bool, []byte)
		want   lnd.CallFailure
	}{
		"FATAL":        {func(*puppet, *protocol.Message) (bool, []byte) { return false, reject(protocol.Fatal, 0, 0) }, lnd.CallTurnedAway},
		"NO_RESOURCES": {func(*puppet, *protocol.Message) (bool, []byte) { return false, reject(protocol.NoResources, 0, 0) }, lnd.CallTurnedAway},
		"version": {func(*puppet, *protocol.Message) (bool, []byte) {
			r := protocol.Reject{Version: protocol.V1, Why: protocol.Fatal}
			return false, r.Append(nil, binary.LittleEndian)
		}, lnd.CallVersion},
		"no answer": {func(*puppet, *protocol.Message) (bool, []byte) { return false, nil }, lnd.CallRefused},
		"nonsense":  {func(*puppet, *protocol.Message) (bool, []byte) { return false, []byte("GET / HTTP/1.1") }, lnd.CallMagic},
		"bad answer": {func(p *puppet, m *protocol.Message) (bool, []byte) {
			answer := p.ack(m)
			answer.DstStamp++
			return true, encode(p.t, answer)
		}, lnd.CallHello},
	} {
		t.Run(name, func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
				p.answer = func(_ int, m *protocol.Message) (bool, []byte) { return c.answer(p, m) }
				a.send(p.nid, 1, 100)
				time.Sleep(3 * time.Second)
				want := lnd.CallFailureCounts{}
				want[c.want] = 1
				if diff := cmp.Diff(want, a.callFailures()); diff != "" {
					t.Errorf("failed calls (-want +got):\n%s", diff)
				}
				a.close()
			})
		})
	}
}

// TestUnansweredCalls checks the reasons of calls that get no answer, and of those to an address
// where nothing listens.
func TestUnansweredCalls(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b, p := newStation(t, f, 0, nil), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		b.close()
		a.send(b.i.NID(), 1, 100)
		hold := f.Hold(a.host, p.host, fabric.Forward)
		a.send(p.nid, 1, 100)
		time.Sleep(20 * time.Second)
		if diff := cmp.Diff(lnd.CallFailureCounts{lnd.CallRefused: 1, lnd.CallTimeout: 1}, a.callFailures()); diff != "" {
			t.Errorf("failed calls (-want +got):\n%s", diff)
		}
		hold.Release()
		a.close()
	})
}

// TestCloseRefusesHalfOpenCallers: given half-open callers, when the interface closes, then they
// are counted as RefusedClosing.
func TestCloseRefusesHalfOpenCallers(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a := newStation(t, f, 0, nil)
		callSilently(t, f, a, 10, 2)
		a.close()
		if diff := cmp.Diff(lnd.RefusalCounts{lnd.RefusedClosing: 2}, a.i.Refusals()); diff != "" {
			t.Errorf("refusals (-want +got):\n%s", diff)
		}
	})
}

// TestDisconnectDuringACall: given a call in progress, when the peer is disconnected, then the
// waiting message fails, but the call does not count as failed, and the next message can be sent.
func TestDisconnectDuringACall(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
		p.acceptAll()
		hold := f.Hold(a.host, p.host, fabric.Forward)
		a.send(p.nid, 1, 100)
		time.Sleep(time.Second)
		a.i.Disconnect(p.nid)
		if _, errs := a.outcome(); len(errs) != 1 || lnd.StatusOf(errs[0]) != lnd.StatusLocalAborted {
			t.Errorf("%v", errs)
		}
		a.send(p.nid, 1, 100)
		hold.Release()
		time.Sleep(time.Second)
		if sent, errs := a.outcome(); sent != 1 || len(errs) > 0 {
			t.Errorf("%d sent, %v", sent, errs)
		}
		if got := a.callFailures(); got.Total() > 0 {
			t.Errorf("failed calls: %v", got)
		}
		a.close()
	})
}
