package node_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// puts makes a send n PUTs to b without waiting for their end.
func (r *rails) puts(t testing.TB, n int, o node.PutOptions) *recorder {
	t.Helper()
	e := &recorder{}
	o.Portal = 1
	for range n {
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true, Handler: e})
		put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, o)
	}
	synctest.Wait()
	return e
}

// putsTo returns the number of PUTs that a has sent to each of b's NIDs.
func (r *rails) putsTo() []int {
	counts := make([]int, len(r.nb))
	for _, d := range r.took() {
		if k := slices.Index(r.nb, d.to); d.typ == lnet.MsgPut && k >= 0 {
			counts[k]++
		}
	}
	return counts
}

// troubleOf returns the trouble that a shows for one of b's NIDs.
func (r *rails) troubleOf(k int) node.PeerTrouble {
	for _, p := range peerNIs(r.a) {
		if p.NID == r.nb[k] {
			return p.Trouble
		}
	}
	return node.PeerTrouble{}
}

// Given a peer with two NIDs, when the driver reports that one does not answer, then
// messages are sent to the other one, the first one loses health once and is pinged, and
// the state of both is shown. When it answers again and a ping succeeds, both are used.
func TestAStalledPeerNIIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		r.hears(t)
		port := r.ports[r.na[0]]
		since := time.Now().Add(-1500 * time.Millisecond)
		r.fails(func(tx *lnd.Tx) error { // no message there is answered
			if tx.To.NID == r.nb[0] {
				return fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrTimeout)
			}
			return nil
		})
		_, before := r.healthOf()
		r.took()
		for range 3 {
			port.upper.PeerStalled(r.nb[0], since)
		}
		if _, peers := r.healthOf(); before[0]-peers[0] != 100 || peers[1] != before[1] {
			t.Errorf("health was %v, is %v: want 100 less of the first", before, peers)
		}
		r.puts(t, 6, node.PutOptions{})
		if got := r.putsTo(); got[0] != 0 || got[1] != 6 {
			t.Errorf("%v PUTs to the two NIDs, want all to the second", got)
		}
		want := node.PeerTrouble{Trouble: selection.Stalled, Since: since.Round(0), From: r.na[0]}
		if got := r.troubleOf(0); got.Trouble != want.Trouble || !got.Since.Equal(want.Since) || got.From != want.From {
			t.Errorf("trouble %+v, want %+v", got, want)
		}
		if got := r.troubleOf(1); got != (node.PeerTrouble{}) {
			t.Errorf("trouble of the other one %+v", got)
		}
		e := r.a.Admin().Explain(r.nb[0], node.ExplainOptions{})
		text := r.nb[0].String() + ": not answering since " + since.UTC().Format(time.RFC3339) + ", from " + r.na[0].String()
		if s := e.String(); !strings.Contains(s, text) {
			t.Errorf("explained without %q:\n%s", text, s)
		}
		time.Sleep(2 * time.Second)
		if !slices.ContainsFunc(r.took(), func(d departure) bool { return d.typ == lnet.MsgGet && d.to == r.nb[0] }) {
			t.Error("nobody pings what does not answer")
		}

		r.fails(nil)
		port.upper.PeerStalled(r.nb[0], time.Time{})
		time.Sleep(10 * time.Minute)
		r.took()
		r.puts(t, 6, node.PutOptions{})
		if got := r.putsTo(); got[0] != 3 || got[1] != 3 {
			t.Errorf("%v PUTs to the two NIDs, want 3 each: trouble %v", got, r.troubleOf(0))
		}
	})
}

// A stall of an unknown peer has no effect, and a stall of a peer's only NID costs no
// health, because there is no other path.
func TestAStallWithoutAnotherWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 1)
		r.hears(t)
		port := r.ports[r.na[0]]
		port.upper.PeerStalled(parseNID(t, "10.9.9.9@tcp"), time.Now())
		r.hold(true)
		done := r.puts(t, 12, node.PutOptions{})
		port.upper.PeerStalled(r.nb[0], time.Now())
		synctest.Wait()
		if n := r.pending(); n != 8 {
			t.Errorf("%d messages wait in the driver, want the 8 that there were", n)
		}
		if _, peers := r.healthOf(); peers[0] != node.MaxHealth {
			t.Errorf("health %v", peers)
		}
		r.hold(false)
		synctest.Wait()
		if got := done.take(); len(got) != 12 || slices.ContainsFunc(got, func(e portals.Event) bool { return e.Err != nil }) {
			t.Errorf("%d events %+v, want 12 without an error", len(got), got)
		}
	})
}

// Given messages that wait in the driver, for a credit of the peer NI and for one of the
// NI, when their path fails, then those that may take another path do so at once, each
// once, without loss of health. The others continue to wait.
func TestWhatWaitsGoesAnotherWay(t *testing.T) {
	stall := func(r *rails) { r.ports[r.na[0]].upper.PeerStalled(r.nb[0], time.Now()) }
	for _, c := range []struct {
		name    string
		credits int // of the NIs; 0 for many
		nis     int
		from    func(r *rails) lnet.NID
		now     func(r *rails)
		moved   int // of 40
	}{
		{"stalled", 0, 1, nil, stall, 40},
		{"stalled, few credits", 4, 1, nil, stall, 40},
		{"stalled, from a given NI", 0, 1, func(r *rails) lnet.NID { return r.na[0] }, stall, 0},
		{"our link is down", 0, 2, nil, func(r *rails) { r.ports[r.na[0]].setLink(lnd.LinkDown) }, 40},
		{"our link is down, few credits", 4, 2, nil, func(r *rails) { r.ports[r.na[0]].setLink(lnd.LinkDown) }, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRailsWith(t, static(), lnd.Tunables{Credits: c.credits}, c.nis, 2)
				r.hears(t)
				o := node.PutOptions{}
				if c.from != nil {
					o.Source = c.from(r)
				}
				r.hold(true)
				r.took()
				done := r.puts(t, 40, o)
				nis, _ := r.healthOf()
				c.now(r)
				synctest.Wait()
				r.hold(false)
				synctest.Wait()
				events := done.take()
				if len(events) != 40 {
					t.Errorf("%d events, want 40", len(events))
				}
				for _, e := range events {
					if e.Err != nil {
						t.Errorf("event %+v", e)
					}
				}
				left := r.took()
				away := 0
				for _, d := range left {
					if d.typ == lnet.MsgPut && (c.nis > 1 && d.from != r.na[0] || c.nis == 1 && d.to != r.nb[0]) {
						away++
					}
				}
				if away != c.moved {
					t.Errorf("%d of %d PUTs went the other way, want %d: %v", away, len(left), c.moved, left)
				}
				if after, _ := r.healthOf(); !slices.Equal(nis, after) {
					t.Errorf("health of the NIs was %v, is %v", nis, after)
				}
				for _, p := range peerNIs(r.a) {
					if p.QueuedBytes != 0 || p.Credits.Available != p.Credits.Max {
						t.Errorf("%s: %d bytes queued, credits %+v", p.NID, p.QueuedBytes, p.Credits)
					}
				}
			})
		})
	}
}

// Given a peer none of whose NIDs answers, whether or not they are also reported as down,
// and messages that wait for them, when one NID answers again, then all messages are sent
// there within a second, although the driver reports nothing more about the other one.
func TestABetterWayThatComesUpLater(t *testing.T) {
	for name, down := range map[string]bool{"silent": false, "silent and called down": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRails(t, static(), 1, 2)
				r.hears(t)
				upper := r.ports[r.na[0]].upper
				for _, nid := range r.nb {
					upper.PeerStalled(nid, time.Now())
					r.a.CallDown(nid, down)
				}
				r.hold(true)
				r.took()
				r.puts(t, 40, node.PutOptions{})
				time.Sleep(10 * time.Second)
				upper.PeerStalled(r.nb[1], time.Time{})
				r.a.CallDown(r.nb[1], false)
				time.Sleep(time.Second)
				synctest.Wait()
				r.hold(false)
				synctest.Wait()
				if got := r.putsTo(); got[0] != 0 || got[1] != 40 {
					t.Errorf("%v PUTs to the two NIDs, want all to the second", got)
				}
			})
		})
	}
}

// Given peers of which one was configured and one has a route, then Vouched returns true
// for these and for no others.
func TestWhoIsVouchedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		named, gateway := parseNID(t, "10.0.0.77@tcp"), parseNID(t, "10.0.0.78@tcp")
		if _, err := r.a.Admin().AddPeer(t.Context(), []lnet.NID{named}, node.AddPeerOptions{Lock: true}); err != nil {
			t.Fatal(err)
		}
		if err := r.a.Admin().AddRoute(t.Context(), lnet.MakeNet(lnet.TypeTCP, 9), gateway, node.RouteOptions{}); err != nil {
			t.Fatal(err)
		}
		stranger := parseNID(t, "10.0.0.79@tcp")
		h := bind(t, r.a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true})
		put(t, r.a, h, lnet.ProcessID{NID: stranger, PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		upper := r.ports[r.na[0]].upper
		for nid, want := range map[lnet.NID]bool{named: true, gateway: true, stranger: false, parseNID(t, "10.9.9.9@tcp"): false} {
			if got := upper.Vouched(nid); got != want {
				t.Errorf("%s is vouched for: %t, want %t", nid, got, want)
			}
		}
	})
}

// Given messages that wait for credits on a path that fails after a while, when they take
// another path and have to wait there too, then each keeps its original deadline.
func TestWhatGoesAnotherWayKeepsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		r.hears(t)
		r.hold(true)
		done := r.puts(t, 40, node.PutOptions{})
		time.Sleep(100 * time.Second)
		r.ports[r.na[0]].upper.PeerStalled(r.nb[0], time.Now())
		synctest.Wait()
		time.Sleep(100 * time.Second) // the driver's timeout is 50 s, and there are three attempts
		r.hold(false)
		synctest.Wait()
		late := 0
		for _, e := range done.take() {
			if e.Err != nil {
				late++
			}
		}
		if late != 32 {
			t.Errorf("%d of 40 were too late, want all but the 8 in the driver's hands", late)
		}
	})
}

// Given two multi-rail nodes, when a link of one goes down, then the other one is
// notified by a push and sends to the other NID, until it is notified that the link is up
// again.
func TestWhatItsNodeCallsDownIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node.DefaultParameters()
		f := newFabric()
		a, b := newNode(t, node.Config{Parameters: &p}), newNode(t, node.Config{Parameters: &p})
		port := f.addNI(t, a, "10.0.0.1@tcp")
		nb := []lnet.NID{parseNID(t, "10.0.0.11@tcp"), parseNID(t, "10.0.0.12@tcp")}
		first := f.addNI(t, b, nb[0].String())
		f.addNI(t, b, nb[1].String())
		sink(t, b, portals.OpPut)
		var counts [2]int
		f.show(func(h lnet.Header, _ []byte) {
			if k := slices.Index(nb, h.Dest); k >= 0 && h.Type == lnet.MsgPut && h.Portal == 1 {
				counts[k]++
			}
		})
		check := func(when string, want [2]int) {
			t.Helper()
			counts = [2]int{}
			for range 8 {
				h := bind(t, a, portals.MD{Bytes: make([]byte, 4), Threshold: 1, Unlink: true})
				put(t, a, h, lnet.ProcessID{NID: nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
				synctest.Wait()
			}
			if counts != want {
				t.Errorf("%s: %v PUTs to the two NIDs, want %v", when, counts, want)
			}
		}
		if _, err := a.Discover(context.Background(), nb[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		check("at first", [2]int{4, 4})
		f.failBy(func(tx *lnd.Tx) error {
			if tx.Header.Src == nb[0] || tx.To.NID == nb[0] {
				return fault(lnd.StatusNetworkTimeout, tx.To.NID, lnd.ErrTimeout)
			}
			return nil
		})
		first.setLink(lnd.LinkDown)
		time.Sleep(10 * time.Second)
		check("while the link is down", [2]int{0, 8})
		if s := a.Admin().Explain(nb[0], node.ExplainOptions{}); !strings.Contains(s.String(), nb[0].String()+": link down, the peer reports") {
			t.Errorf("explained:\n%s", s.String())
		}
		f.failBy(nil)
		first.setLink(lnd.LinkUp)
		time.Sleep(10 * time.Minute) // health is restored too
		check("afterwards", [2]int{4, 4})
		if !slices.Equal(port.back, nb[:1]) {
			t.Errorf("the driver heard that the links of %v were back, want %s", port.back, nb[0])
		}
	})
}
