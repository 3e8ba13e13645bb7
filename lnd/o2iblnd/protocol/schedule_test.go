package protocol

import (
	"testing"

	"pgregory.net/rapid"
)

// Two ends perform their steps in any order. Every SEND finds a receive buffer, the send queue
// never overflows, every message is completed once with its bytes in place, no message waits
// forever, and in the end all credits are accounted for (o2iblnd 9.6, 21).
//
// o2iblnd 8 (1), 9.1, 9.2, 9.3 (1)-(3), 9.4 (2)-(3), 9.6, 10.4, 11 (1), 11 (3), 18 (7)
func TestAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom([]Version{V2, V2, V2, V1}).Draw(t, "version")
		depth := rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(1, MaxDepth)).Draw(t, "depth")
		if version == V1 {
			depth = V1Depth
		}
		o := Options{
			Flow: Flow{
				PeerCredits: rapid.IntRange(8, MaxDepth).Draw(t, "peer_credits"), HighWater: rapid.IntRange(0, MaxDepth).Draw(t, "peer_credits_hiw"),
				ConcurrentSends: rapid.IntRange(0, 40).Draw(t, "concurrent_sends"),
			},
			Checksum:  rapid.SampledFrom([]Variant{NoChecksum, NoChecksum, Signed, Unsigned}).Draw(t, "cksum"),
			Gather:    rapid.IntRange(1, 4).Draw(t, "wrq_sge"),
			SendQueue: rapid.OneOf(rapid.IntRange(2, 8), rapid.Just(1024)).Draw(t, "send queue"),
		}
		a, b := newPair(t, o, version, depth, 256)
		r := seeded(rapid.Uint64().Draw(t, "seed"))
		for _, e := range []*end{a, b} {
			for k := range e.slow {
				e.slow[k] = rapid.SampledFrom([]int{0, 0, 50, 90, 99}).Draw(t, "slowness of "+e.name)
			}
		}
		sent := 0
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			e := a
			if r.IntN(2) == 0 {
				e = b
			}
			switch k := r.IntN(12); {
			case k == 0:
				e.put(sent, 1+r.IntN(500), 1+r.IntN(5))
			case k == 1:
				e.get(sent, r.IntN(300), 0, 1+r.IntN(4))
			case k < 5:
				e.immediate(sent, r.IntN(200))
			default:
				e.step(r)
				continue
			}
			sent++
		}
		settle(a, b, r)
		if len(a.pending)+len(b.pending)+len(a.placing)+len(b.placing) > 0 {
			t.Fatalf("deadlock: %d and %d messages wait (A %v, B %v)", len(a.pending), len(b.pending), a.c, b.c)
		}
		if a.done+b.done != sent {
			t.Fatalf("%d messages were sent, %d are done", sent, a.done+b.done)
		}
		for _, e := range []*end{a, b} {
			if c, p := &e.c.credits, &e.peer.c.credits; c.credits+p.outstanding != depth || p.held != p.outstanding {
				t.Fatalf("%s: %d credits, the other side owes %d and holds %d, of %d", e.name, c.credits, p.outstanding, p.held, depth)
			}
			if c := &e.c.credits; c.reserved != depth || c.posted != 0 || c.noops != 0 {
				t.Fatalf("%s: %v", e.name, c)
			}
			if len(e.posted) != ReceiveBuffers(version, depth) {
				t.Fatalf("%s: %d buffers are posted", e.name, len(e.posted))
			}
			if e.failed > 0 && e.dropped {
				t.Fatalf("%s: failures", e.name)
			}
		}
	})
}

// A connection ends at any moment: either side closes it, a message times out, or an error occurs.
// Every message and every arrival is completed once (o2iblnd 12.1, 13.3).
//
// o2iblnd 12.1 (1)
func TestCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth := rapid.IntRange(1, 20).Draw(t, "depth")
		o := Options{SendQueue: rapid.OneOf(rapid.IntRange(2, 8), rapid.Just(1024)).Draw(t, "send queue")}
		a, b := newPair(t, o, V2, depth, 256)
		r := seeded(rapid.Uint64().Draw(t, "seed"))
		sent := 0
		work := func(steps int) {
			for range steps {
				e := a
				if r.IntN(2) == 0 {
					e = b
				}
				switch r.IntN(9) {
				case 0:
					e.put(sent, 1+r.IntN(500), 1+r.IntN(5))
				case 1:
					e.get(sent, r.IntN(300), 0, 1+r.IntN(4))
				case 2:
					e.immediate(sent, r.IntN(200))
				default:
					e.step(r)
					continue
				}
				sent++
			}
		}
		work(rapid.IntRange(0, 200).Draw(t, "steps"))
		for _, e := range []*end{a, b} {
			switch rapid.IntRange(0, 4).Draw(t, "how") {
			case 0:
				e.c.Close(CMDisconnected.Failure(), &e.b)
			case 1:
				e.now = e.now.Add(defaultTimeout)
				e.c.Tick(e.now, &e.b)
			case 2:
				slot := -1
				if len(e.wire) > 0 {
					slot = e.wire[0].slot
				}
				e.c.Failed(slot, nil, &e.b)
			case 3:
				e.c.Received(e.now, 0, []byte("nonsense"), &e.b)
			case 4: // only Flushed
			}
			e.carry()
		}
		work(5)
		a.flush()
		b.flush()
		work(5)
		for _, e := range []*end{a, b} {
			for len(e.waiting) > 0 {
				e.answer(0, 1, false)
			}
			e.flush() // does nothing
			if len(e.pending)+len(e.placing) > 0 {
				t.Fatalf("%s: %d messages and %d arrivals have not ended", e.name, len(e.pending), len(e.placing))
			}
			if len(e.c.free) != len(e.c.rxs) {
				t.Fatalf("%s: %d of %d arrivals were released", e.name, len(e.c.free), len(e.c.rxs))
			}
		}
		if a.done+b.done != sent {
			t.Fatalf("%d messages were sent, %d have ended", sent, a.done+b.done)
		}
	})
}
