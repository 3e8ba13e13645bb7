package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// A peer's only NID loses no health by failures, unless it is a gateway's or this node is
// a router. Our own NIDs never do.
//
// discovery 9.2
func TestWhoseHealthSuffers(t *testing.T) {
	const own, own2, peer, single = "10.77.0.1@tcp", "10.77.0.2@tcp", "10.77.0.9@tcp", "10.77.0.8@tcp"
	for _, c := range []struct {
		name, to         string
		gateway, routing bool
		want             int // expected health
	}{
		{"one of two NIDs", peer, false, false, 900},
		{"the only NID", single, false, false, 1000},
		{"a gateway's only NID", single, true, false, 900},
		{"the only NID, and we forward", single, false, true, 900},
		{"our own", own2, false, true, 1000},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFabric()
			n := newNode(t, node.Config{Routing: c.routing})
			f.addNI(t, n, own)
			f.addNI(t, n, own2)
			configure(t, n, parseNID(t, own), parseNID(t, own2))
			configure(t, n, parseNID(t, peer), parseNID(t, "10.77.0.10@tcp"))
			if c.gateway {
				addRoute(t, n, "tcp5", c.to, node.RouteOptions{})
			} else if c.to == single {
				configure(t, n, parseNID(t, single))
			}
			synctest.Wait()
			if err := n.Admin().SetPeerHealth(parseNID(t, c.to), node.MaxHealth); err != nil {
				t.Fatal(err)
			}
			f.failBy(as(lnd.StatusRemoteError))
			put(t, n, bind(t, n, portals.MD{Threshold: 1}), process(t, c.to), node.PutOptions{Portal: 9, Source: parseNID(t, own)})
			synctest.Wait()
			if h := peerNI(t, n, c.to).Health.Value; h != c.want {
				t.Errorf("%s: health %d, want %d", c.name, h, c.want)
			}
		})
	}
}

// A message from an NI or a peer NI resets the pauses between its recovery pings. A
// gateway's health becomes full at once.
//
// discovery 9.5
func TestWhoIsHeardBeginsAnew(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 2, 2)
			r.hears(t)
			if gateway {
				addRoute(t, r.a, "tcp5", r.nb[0].String(), node.RouteOptions{})
				synctest.Wait()
			}
			r.fails(as(lnd.StatusRemoteError))
			if err := r.a.Admin().SetNIHealth(r.na[0], 100); err != nil {
				t.Fatal(err)
			}
			if err := r.a.Admin().SetPeerHealth(r.nb[0], 100); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			pings := func() (ni, peer node.Health) {
				synctest.Wait()
				return r.a.NIs()[1].Health, peerNI(t, r.a, r.nb[0].String()).Health
			}
			if ni, peer := pings(); ni.Pings == 0 || peer.Pings == 0 {
				t.Fatalf("not pinged: NI %+v, peer NI %+v", ni, peer)
			}
			h := bind(t, r.b, portals.MD{Threshold: 1})
			put(t, r.b, h, lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1, Source: r.nb[0]})
			ni, peer := pings()
			if ni.Pings != 0 || peer.Pings != 0 {
				t.Errorf("gateway %v: %d and %d pings though it was heard", gateway, ni.Pings, peer.Pings)
			}
			if well := peer.Value == node.MaxHealth; well != gateway {
				t.Errorf("gateway %v: health %d", gateway, peer.Value)
			}
		})
	}
}

// Given a peer NI that was silent for longer than the recovery limit, then its number of
// pings is reset. When a message arrives from it and its health is not full, it is pinged
// again.
//
// discovery 9.4, 9.5
func TestHeardAfterTheRecoveryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.RecoveryLimit = 20 * time.Second
		r := newRails(t, p, 1, 2)
		r.hears(t)
		r.fails(as(lnd.StatusRemoteError))
		if err := r.a.Admin().SetPeerHealth(r.nb[0], 100); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if h := peerNI(t, r.a, r.nb[0].String()).Health; h.Pings != 0 || !h.NextPing.IsZero() {
			t.Errorf("after the limit: %+v", h)
		}
		r.took()
		h := bind(t, r.b, portals.MD{Threshold: 1})
		put(t, r.b, h, lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1, Source: r.nb[0]})
		time.Sleep(10 * time.Second)
		if at := r.pingsTo(r.nb[0]); len(at) == 0 {
			t.Error("it was heard, is not well, and is not pinged")
		}
	})
}

// After a local failure the NI is pinged. A successful ping raises health in addition to
// the messages that are part of it.
//
// discovery 9.4, 9.7
func TestAnNIIsPingedAndMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		if err := r.a.Admin().SetNIHealth(r.na[0], 1000); err != nil {
			t.Fatal(err)
		}
		r.fails(as(lnd.StatusLocalError))
		r.put(t, node.PutOptions{Source: r.na[0]})
		r.fails(nil)
		r.took()
		time.Sleep(3 * time.Second)
		if at := r.pingsTo(r.na[0]); len(at) == 0 {
			t.Error("not pinged after a local failure")
		}
		if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
			t.Fatal(err)
		}
		r.took()
		for len(r.pingsTo(r.na[0])) == 0 {
			time.Sleep(time.Second)
		}
		// The GET arrives, the REPLY is sent, and then the ping has succeeded.
		if nis, _ := r.healthOf(); nis[0] != 300 {
			t.Errorf("health %d after one ping, want 300", nis[0])
		}
	})
}

// An NI or peer NI with full health, or one that was removed, is not pinged any more. A
// ping under way is canceled.
//
// discovery 9.7
func TestRecoveryPingsEnd(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, r *rails) error{
		"the NI is well":      func(_ *testing.T, r *rails) error { return r.a.Admin().SetNIHealth(r.na[0], node.MaxHealth) },
		"the NI is gone":      func(t *testing.T, r *rails) error { return r.a.RemoveNI(t.Context(), r.na[0]) },
		"the peer NI is well": func(_ *testing.T, r *rails) error { return r.a.Admin().SetPeerHealth(r.nb[1], node.MaxHealth) },
		"the peer is gone":    func(t *testing.T, r *rails) error { return r.a.Admin().ForceDeletePeer(t.Context(), r.nb[0]) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 2, 2)
			r.hears(t)
			to := r.na[0]
			if name[:8] == "the peer" {
				to = r.nb[1]
				if err := r.a.Admin().SetPeerHealth(to, 0); err != nil {
					t.Fatal(err)
				}
			} else if err := r.a.Admin().SetNIHealth(to, 0); err != nil {
				t.Fatal(err)
			}
			r.hold(true)
			time.Sleep(2500 * time.Millisecond)
			synctest.Wait()
			if got := r.a.Admin().Counters().Trackers; got != 1 {
				t.Fatalf("%s: %d pings under way", name, got)
			}
			if err := end(t, r); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if got := r.a.Admin().Counters().Trackers; got != 0 {
				t.Errorf("%s: %d pings are still waited for", name, got)
			}
			r.hold(false)
			r.took()
			time.Sleep(time.Minute)
			if at := r.pingsTo(to); len(at) != 0 {
				t.Errorf("%s: pings at %v s", name, at)
			}
		})
	}
}

// Without retries no resend can fail.
//
// discovery 9.6
// lnet-core 10.1
func TestNoRetriesNoFailedResends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.RetryCount = 0
		r := newRails(t, p, 2, 2)
		r.fails(as(lnd.StatusLocalDropped))
		r.put(t, node.PutOptions{})
		if c := r.a.Admin().Counters(); c.LocalDropped != 1 || c.Resent != 0 || c.FailedResends != 0 {
			t.Errorf("counters %+v", c)
		}
	})
}

// Given a message to be resent from an NI that was removed, then it ends with that error
// and is not tried again.
//
// discovery 9.6
func TestResendWithoutAWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		r.fails(func(tx *lnd.Tx) error {
			if err := r.a.RemoveNI(t.Context(), r.na[0]); err != nil {
				t.Error(err)
			}
			return as(lnd.StatusLocalDropped)(tx)
		})
		e := r.put(t, node.PutOptions{Source: r.na[0]})
		if !errors.Is(e.Err, node.ErrInvalid) {
			t.Errorf("event's error %v, want that the source is not ours", e.Err)
		}
		if c := r.a.Admin().Counters(); c.Resent != 0 || c.FailedResends != 0 || c.Committed != 0 {
			t.Errorf("counters %+v", c)
		}
	})
}
