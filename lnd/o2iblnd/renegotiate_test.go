package o2iblnd_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// TestFirstMessageBetweenUnequals: two nodes with different peer_credits and conns_per_peer
// exchange their first messages, whichever side calls. No message fails, because a rejected request
// is repeated with the depth that the peer offers.
//
// o2iblnd 6 (3), 3.6 (1)
func TestFirstMessageBetweenUnequals(t *testing.T) {
	for _, c := range []struct{ credits, peers, conns int }{
		{16, 8, 1}, {8, 16, 1}, {32, 8, 2}, {8, 32, 2}, {255, 8, 4}, {12, 9, 1},
	} {
		onFabric(t, func(t *testing.T, f *fabric.Fabric) {
			edit := func(credits int) func(*o2iblnd.Config) {
				return func(k *o2iblnd.Config) { k.Tunables.PeerCredits, k.ConnsPerPeer = credits, c.conns }
			}
			a, b := newStation(t, f, 0, edit(c.credits)), newStation(t, f, 1, edit(c.peers))
			a.send(nidOf(1), 20, 100)
			a.send(nidOf(1), 20, 50_000)
			b.send(nidOf(0), 20, 100)
			time.Sleep(5 * time.Second)
			for _, s := range []*station{a, b} {
				sent, errs := s.outcome()
				if want := map[bool]int{true: 40, false: 20}[s == a]; sent != want || len(errs) > 0 {
					t.Errorf("%+v: node %d: %d of %d sent, %v", c, s.k, sent, want, errs)
				}
			}
			if n := counter(a, "connect_failures_total") + counter(b, "connect_failures_total"); n > 0 {
				t.Errorf("%+v: %d attempts count as failed", c, n)
			}
			a.close()
			b.close()
		})
	}
}

// TestRejectedForOneReasonAfterAnother: a peer rejects each request for another reason. Each new
// request respects all earlier rejections, until the peer accepts.
//
// o2iblnd 6 (3)
func TestRejectedForOneReasonAfterAnother(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		deep := func(c *o2iblnd.Config) { c.Tunables.PeerCredits = 32 }
		a, p := newStation(t, f, 0, deep), newPuppet(t, f, 7)
		rejects := [][]byte{
			reject(protocol.TooDeep, 16, 257), reject(protocol.TooManyFrag, 16, 64), reject(protocol.Stale, 16, 64),
			reject(protocol.TooDeep, 8, 64), reject(protocol.TooManyFrag, 8, 16),
		}
		p.answer = func(n int, m *protocol.Message) (bool, []byte) {
			if n <= len(rejects) {
				return false, rejects[n-1]
			}
			return true, encode(t, p.ack(m))
		}
		a.send(p.nid, 3, 100)
		time.Sleep(3 * time.Second)
		if sent, errs := a.outcome(); sent != 3 || len(errs) > 0 {
			t.Errorf("%d of 3 sent, %v", sent, errs)
		}
		type offer struct {
			Depth, Fragments uint16
			Stamp            uint64
		}
		var got []offer
		for _, m := range p.requests {
			got = append(got, offer{m.Params.Depth, m.Params.Fragments, m.DstStamp})
		}
		want := []offer{
			{32, 256, 0}, {16, 256, puppetStamp}, {16, 64, puppetStamp}, {16, 64, puppetStamp}, {8, 64, puppetStamp}, {8, 16, puppetStamp},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		a.close()
	})
}

// TestRejectedForGood: a rejection that offers nothing smaller, names another version or gives no
// reason fails the message with ECONNREFUSED, not as a lost connection.
//
// o2iblnd 6 (3)
func TestRejectedForGood(t *testing.T) {
	v1 := protocol.Reject{Version: protocol.V1, Why: protocol.Uncompat}
	for name, private := range map[string][]byte{
		"the same depth":     reject(protocol.TooDeep, 8, 257),
		"no depth":           reject(protocol.TooDeep, 0, 257),
		"the same fragments": reject(protocol.TooManyFrag, 8, 256),
		"no fragments":       reject(protocol.TooManyFrag, 8, 0),
		"our version":        reject(protocol.Uncompat, 8, 257),
		"another version":    v1.Append(nil, binary.LittleEndian),
		"no reason":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			onFabric(t, func(t *testing.T, f *fabric.Fabric) {
				a, p := newStation(t, f, 0, nil), newPuppet(t, f, 7)
				p.answer = func(int, *protocol.Message) (bool, []byte) { return false, private }
				a.send(p.nid, 1, 100)
				time.Sleep(3 * time.Second)
				_, errs := a.outcome()
				if len(errs) != 1 || !errors.Is(errs[0], syscall.ECONNREFUSED) || len(p.requests) != 1 {
					t.Errorf("%d requests, %v", len(p.requests), errs)
				}
				a.close()
			})
		})
	}
}

// TestCMRejects checks rejections by the connection manager itself, without data of the peer. If it
// still has an old connection, the request is repeated. If nothing listens, the message fails.
//
// o2iblnd 6 (3), 12.6
func TestCMRejects(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		a, b := newStation(t, f, 0, nil), newStation(t, f, 1, nil)
		f.SetLink(a.host, b.host, fabric.Both, fabric.Link{Latency: 10 * time.Microsecond, Stale: 0.7})
		a.send(nidOf(1), 10, 100)
		time.Sleep(9 * time.Second)
		if sent, errs := a.outcome(); sent != 10 || len(errs) > 0 {
			t.Errorf("%d of 10 sent, %v", sent, errs)
		}
		if f.Faults().Stale == 0 {
			t.Error("no connection was stale")
		}
		b.close()
		time.Sleep(time.Second)
		a.send(nidOf(1), 1, 100)
		time.Sleep(9 * time.Second)
		if _, errs := a.outcome(); len(errs) != 1 || !errors.Is(errs[0], syscall.EHOSTUNREACH) {
			t.Errorf("nothing listens: %v", errs)
		}
		a.close()
	})
}
