package inproc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/transport"
)

// Given a buffer for two messages, when a long one begins to arrive, and a short one from another sender
// begins later and ends first, then the event of the long one, which has the lower offset, is the last and
// final one.
//
// transport 3.11 (6)
func TestFinalCompletionIsLast(t *testing.T) {
	const long, short = 512 << 10, 100
	synctest.Test(t, func(t *testing.T) {
		perSecond := simlnd.Config{Link: simlnd.Link{Bandwidth: long}}
		nodes := simulated(t, perSecond, static(), "10.7.1.1", "10.7.1.2", "10.7.1.3")
		var tms []*queuedTM
		for _, n := range nodes {
			tms = append(tms, start(t, openOn(t, New(n)), at(nidOf(n), 34, 1)))
		}
		to, slow, quick := tms[0], tms[1], tms[2]
		in := op(transport.MsgRecv, register(t, to.domain, make([]byte, 2*long)))
		in.MinReceiveSize, in.MaxMessages = long, 2
		submit(t, to, in)
		send := func(from *queuedTM, size int) {
			out := op(transport.MsgSend, register(t, from.domain, make([]byte, size)))
			out.Peer = to.Address()
			submit(t, from, out)
		}
		send(slow, long)
		time.Sleep(500 * time.Millisecond) // half of it has arrived
		send(quick, short)
		type event struct {
			Offset, Length int
			Sender         transport.Address
			Final          bool
		}
		var got []event
		for range 2 {
			c := next(t, to)
			if c.Err != nil {
				t.Fatal(c.Err)
			}
			got = append(got, event{c.Offset, c.Length, c.Sender, c.Final})
		}
		want := []event{{long, short, quick.Address(), false}, {0, long, slow.Address(), true}}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b transport.Address) bool { return a == b })); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}
