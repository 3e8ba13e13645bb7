package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// pingsTo returns the times of a's recovery pings to nid, in whole seconds.
func (r *rails) pingsTo(nid lnet.NID) []int {
	var at []int
	for _, d := range r.took() {
		if d.typ == lnet.MsgGet && d.to == nid && d.sink == 272 {
			at = append(at, int(d.at.Round(time.Second)/time.Second))
		}
	}
	return at
}

// steps returns the pauses between pings.
func steps(at []int) []int {
	var s []int
	for k := 1; k < len(at); k++ {
		s = append(s, at[k]-at[k-1])
	}
	return s
}

// Given an NI without health whose pings fail, then they are sent after 0, 2, 6, 14, 30 s
// and so on, each from the NI with better health, and the pause is limited.
//
// discovery 9.7
// lnet-core 12.2
// selection 4.5 (2)
// sanity-lnet 7 (210)
func TestRecoveryPingsOfAnNI(t *testing.T) {
	for _, c := range []struct {
		most time.Duration
		time time.Duration
		want []int // pauses
	}{
		{900 * time.Second, 70 * time.Second, []int{2, 4, 8, 16, 32}},
		{4 * time.Second, 21 * time.Second, []int{2, 4, 4, 4, 4}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := static()
			p.MaxRecoveryPingInterval = c.most
			r := newRails(t, p, 2, 1)
			r.fails(func(tx *lnd.Tx) error {
				if tx.Header.Src != r.na[1] {
					t.Errorf("from %s", tx.Header.Src)
				}
				return as(lnd.StatusRemoteError)(tx)
			})
			if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
				t.Fatal(err)
			}
			r.restart()
			time.Sleep(c.time)
			at := r.pingsTo(r.na[0])
			if len(at) == 0 || at[0] > 1 {
				t.Fatalf("pings at %v s, want the first at once", at)
			}
			if d := cmp.Diff(c.want, steps(at)); d != "" {
				t.Errorf("pauses between pings (-want +got):\n%s", d)
			}
			h := r.a.NIs()[1].Health
			if h.Value != 0 || h.Pings != len(at) || !h.NextPing.After(time.Now()) {
				t.Errorf("health %+v after %d pings", h, len(at))
			}
			if a, err := r.a.Admin().Activity(t.Context()); err != nil || a.RecoveringNIs != 1 || a.NIPings != uint64(len(at)) || a.PeerNIPings != 0 {
				t.Errorf("activity %+v, %v, after %d pings", a, err, len(at))
			}
		})
	}
}

// Given an NI or a peer NI that answers, then its health is soon full, and the pings end.
//
// discovery 9.7
// selection 4.5 (1), 8.3 (40)
func TestRecoverySucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		for _, nid := range r.na {
			if err := r.a.Admin().SetNIHealth(nid, 0); err != nil {
				t.Fatal(err)
			}
		}
		r.hears(t)
		if err := r.a.Admin().SetPeerHealth(r.nb[1], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if nis, peers := r.healthOf(); lost(nis) != 0 || lost(peers) != 0 {
			t.Errorf("NIs %v, peer NIs %v", nis, peers)
		}
		for _, i := range r.a.NIs()[1:] {
			if i.Status != lnet.StatusUp || !i.Health.NextPing.IsZero() {
				t.Errorf("%s: %v, %+v", i.NID, i.Status, i.Health)
			}
		}
		r.took()
		time.Sleep(60 * time.Second)
		if left := r.took(); left != nil {
			t.Errorf("sent after that: %+v", left)
		}
	})
}

// Given a long interruption, after which the next pings are minutes away, when a message
// arrives from the peer NI, or the link is up again, then pings are sent at once, and
// health is soon full.
//
// discovery 9.5, 9.7
func TestRecoveryAfterALongCut(t *testing.T) {
	for name, back := range map[string]func(t *testing.T, r *rails){
		"heard": func(t *testing.T, r *rails) { r.hears(t) },
		"link":  func(_ *testing.T, r *rails) { r.ports[r.na[0]].setLink(lnd.LinkUp) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRails(t, static(), 1, 2)
				r.hears(t)
				if err := r.a.Admin().SetPeerHealth(r.nb[1], 0); err != nil {
					t.Fatal(err)
				}
				r.ports[r.na[0]].setLink(lnd.LinkDown)
				r.fails(as(lnd.StatusRemoteError))
				time.Sleep(20 * time.Minute) // the next one is due at 1534 s
				r.fails(nil)
				r.took()
				back(t, r)
				time.Sleep(2 * time.Second)
				if at := r.pingsTo(r.nb[1]); len(at) == 0 {
					t.Error("nobody pings")
				}
				time.Sleep(time.Minute)
				if _, peers := r.healthOf(); lost(peers) != 0 {
					t.Errorf("peer NIs %v", peers)
				}
			})
		})
	}
}

// A peer NI from which a message arrives is pinged within 2 s if its next ping was due in
// 3 s or more.
//
// discovery 9.5, 9.7
func TestRecoveryAfterAShortCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		r.hears(t)
		if err := r.a.Admin().SetPeerHealth(r.nb[1], 0); err != nil {
			t.Fatal(err)
		}
		r.fails(as(lnd.StatusRemoteError))
		var at []int
		for len(at) < 3 { // the next one is due in 8 s
			time.Sleep(time.Second)
			at = append(at, r.pingsTo(r.nb[1])...)
		}
		r.fails(nil)
		r.hears(t)
		r.took()
		time.Sleep(2 * time.Second)
		if next := r.pingsTo(r.nb[1]); len(next) == 0 {
			t.Errorf("pings at %v, and no other one 2 s later", at)
		}
	})
}

// A peer NI is pinged at its own NID only after a message has arrived from it.
//
// discovery 9.4, 9.7
// lnet-core 5.2 (7)
func TestRecoveryPingsOfAPeer(t *testing.T) {
	for _, heard := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 1, 2)
			if heard {
				r.hears(t)
			}
			r.fails(as(lnd.StatusRemoteError))
			r.put(t, node.PutOptions{})
			left := r.took()
			if len(left) != 1 {
				t.Fatalf("transmissions %+v", left)
			}
			time.Sleep(10 * time.Second)
			pings := len(r.pingsTo(left[0].to))
			if got := pings > 0; got != heard {
				t.Errorf("heard %v, pinged %v", heard, got)
			}
			if a, err := r.a.Admin().Activity(t.Context()); err != nil || a.PeerNIPings != uint64(pings) || a.RecoveringPeerNIs != min(pings, 1) || a.NIPings != 0 {
				t.Errorf("activity %+v, %v, after %d pings", a, err, pings)
			}
		})
	}
}

// Given a recovery ping under way, then there is no second one. A ping that fails is
// repeated only by its schedule.
//
// discovery 9.6, 9.7
func TestOneRecoveryPingAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		r.hold(true)
		if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if got := r.pending(); got != 1 {
			t.Errorf("%d pings under way, want 1", got)
		}
		r.fails(as(lnd.StatusLocalDropped)) // other messages that fail with it are resent
		r.step()
		synctest.Wait()
		if got := r.a.Admin().Counters().Resent; got != 0 {
			t.Errorf("%d resent", got)
		}
		r.fails(nil)
		r.hold(false)
	})
}

// A peer NI that is silent for longer than the limit is not pinged any more.
//
// discovery 9.4
// sanity-lnet 7 (210)
func TestRecoveryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.RecoveryLimit, p.MaxRecoveryPingInterval = 20*time.Second, 4*time.Second
		r := newRails(t, p, 1, 2)
		r.hears(t)
		r.fails(as(lnd.StatusRemoteError))
		r.put(t, node.PutOptions{})
		to := r.took()[0].to
		time.Sleep(15 * time.Second)
		if got := r.pingsTo(to); len(got) == 0 {
			t.Error("no pings within the limit")
		}
		time.Sleep(30 * time.Second)
		r.took()
		time.Sleep(30 * time.Second)
		if got := r.pingsTo(to); got != nil {
			t.Errorf("pings at %v s", got)
		}
	})
}

// The node's own pings are tracked even if the parameter is TrackNone. Pings of programs
// follow the parameter.
//
// lnet-core 6.4 own
func TestOwnPingsAreTracked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.ResponseTracking = node.TrackNone
		r := newRails(t, p, 2, 1)
		r.hold(true)
		defer r.hold(false)
		done := make(chan error, 1)
		go func() {
			_, err := r.a.Ping(t.Context(), lnet.ProcessID{NID: r.nb[0]}, node.PingOptions{})
			done <- err
		}()
		synctest.Wait()
		if got := r.a.Admin().Counters().Trackers; got != 0 || r.pending() != 1 {
			t.Errorf("a user's ping: %d trackers, %d messages", got, r.pending())
		}
		if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := r.a.Admin().Counters().Trackers; got != 1 || r.pending() != 2 {
			t.Errorf("a recovery ping: %d trackers, %d messages", got, r.pending())
		}
		r.hold(false)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Given an NI that loses health again while it is being removed from the recovery queue,
// then it is added again.
//
// discovery 9.7
func TestHurtAgainWhileLeavingRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		r.fails(as(lnd.StatusRemoteError))
		if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		r.a.Discharge(r.na[0])
		r.restart()
		time.Sleep(20 * time.Second)
		if at := r.pingsTo(r.na[0]); len(at) == 0 {
			t.Error("it is not pinged any more")
		}
		if h := r.a.NIs()[1].Health; h.NextPing.IsZero() {
			t.Errorf("health %+v", h)
		}
	})
}
