package o2iblnd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// requestOf returns a valid request of node k for a connection with node 0.
func requestOf(t *testing.T, k int) []byte {
	t.Helper()
	return encode(t, protocol.Message{
		Version: protocol.V2, Type: protocol.ConnReq, Src: nidOf(k), SrcStamp: puppetStamp, Dst: nidOf(0),
		Params: protocol.Params{Depth: 8, Fragments: 256, Size: 4096},
	})
}

// TestConnectionsOfOne checks that the connections of one peer are limited, and with them the
// memory of their receives, and that all memory is returned.
func TestConnectionsOfOne(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		const most, more = 254, 6 // twice 127
		a, b, p := newStation(t, f, 0, nil), newStation(t, f, 1, nil), newPuppet(t, f, 7)
		b.works(a)
		before := counter(a, "arena_lent_bytes")
		for range most + more {
			p.call(nidOf(0).IP(), requestOf(t, 7))
			time.Sleep(10 * time.Millisecond)
		}
		rejected := 0
		for _, e := range p.take() {
			if e.Kind == verbs.EventRejected {
				rejected++
			}
		}
		if n := a.i.Refusals()[lnd.RefusedMany]; rejected != more || n != more {
			t.Errorf("%d callers were rejected, %d are counted, want %d", rejected, n, more)
		}
		perConn := (counter(a, "arena_lent_bytes") - before) / most
		if perConn == 0 || perConn > 2*18*4096 {
			t.Errorf("a connection takes %d bytes", perConn)
		}
		b.works(a)
		p.proc.Kill()
		time.Sleep(time.Second)
		if n := counter(a, "arena_lent_bytes"); n != before {
			t.Errorf("%d bytes are lent, and were %d before", n, before)
		}
		b.works(a)
		a.close()
		b.close()
	})
}

// callSilently has count nodes, from first on, request connections with a. After that their
// messages are lost.
func callSilently(t *testing.T, f *fabric.Fabric, a *station, first, count int) {
	t.Helper()
	var holds []*fabric.Hold
	var puppets []*puppet
	for k := first; k < first+count; k++ {
		p := newPuppet(t, f, k)
		puppets = append(puppets, p)
		holds = append(holds, f.Hold(p.host, a.host, fabric.Forward))
		p.call(nidOf(0).IP(), requestOf(t, k))
	}
	time.Sleep(time.Second)
	for k, h := range holds {
		f.SetLink(a.host, puppets[k].host, fabric.Both, fabric.Link{CMLoss: 1})
		h.Release()
	}
	time.Sleep(time.Second)
}

// TestSilentCallersLockNobodyOut: given more silent callers than may be half-open, then the oldest
// are evicted and counted, and others are accepted at once. The remaining ones are counted when
// they time out.
func TestSilentCallersLockNobodyOut(t *testing.T) {
	onFabric(t, func(t *testing.T, f *fabric.Fabric) {
		few := func(c *o2iblnd.Config) { c.MaxHalfOpen = 4 }
		a, b := newStation(t, f, 0, few), newStation(t, f, 1, nil)
		callSilently(t, f, a, 10, 7)
		if n := a.i.Refusals()[lnd.RefusedMany]; n != 3 {
			t.Errorf("%d of 7 callers were evicted, want 3", n)
		}
		begin := time.Now()
		b.send(a.i.NID(), 1, 100)
		time.Sleep(time.Second)
		if sent, errs := b.outcome(); sent != 1 || len(errs) > 0 {
			t.Errorf("%d sent within %v, %v", sent, time.Since(begin), errs)
		}
		time.Sleep(15 * time.Second)
		want := lnd.RefusalCounts{lnd.RefusedMany: 4, lnd.RefusedSlow: 3}
		if diff := cmp.Diff(want, a.i.Refusals()); diff != "" {
			t.Errorf("refusals (-want +got):\n%s", diff)
		}
		a.close()
		b.close()
	})
}
