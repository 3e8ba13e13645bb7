package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a node on which almost everything has happened, then its counters show it. After
// a reset all are 0, except those of health for NIs and peer NIs.
//
// lnet-core 2.3 committed, 10.1, 10.1 reset
func TestCountersAreReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.hears(t)
		fates := []lnd.Status{
			lnd.StatusLocalDropped, lnd.StatusRemoteDropped, lnd.StatusOK, // resent successfully
			lnd.StatusRemoteDropped, lnd.StatusRemoteDropped, lnd.StatusRemoteDropped, // resent unsuccessfully
		}
		r.fails(func(tx *lnd.Tx) error {
			if len(fates) == 0 || tx.Header.Type != lnet.MsgPut {
				return nil
			}
			s := fates[0]
			fates = fates[1:]
			if s == lnd.StatusOK {
				return nil
			}
			return as(s)(tx)
		})
		r.put(t, node.PutOptions{})
		r.put(t, node.PutOptions{})
		to := lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}
		r.hold(true)
		for range 3 {
			put(t, r.a, bind(t, r.a, portals.MD{Bytes: make([]byte, 5), Threshold: 1}), to, node.PutOptions{Portal: 1})
		}
		r.hold(false)
		put(t, r.a, bind(t, r.a, portals.MD{Threshold: 2}), to, node.PutOptions{Portal: 9, Ack: true}) // no ACK comes
		put(t, r.b, bind(t, r.b, portals.MD{Bytes: make([]byte, 7), Threshold: 1}), lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre},
			node.PutOptions{Portal: 9}) // no entry matches
		synctest.Wait()
		want := node.Counters{
			CommittedMax: 3, Trackers: 1, Sent: 1 + 3 + 1, SentBytes: 4 + 3*5, Received: 2, ReceivedBytes: 2, Dropped: 1, DroppedBytes: 7,
			Resent: 4, SuccessfulResends: 1, FailedResends: 1, LocalDropped: 1, RemoteDropped: 4,
		}
		got := r.a.Admin().Counters()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("counters (-want +got):\n%s", d)
		}
		time.Sleep(200 * time.Second)
		if got := r.a.Admin().Counters(); got.ResponseTimeouts != 1 || got.Trackers != 0 {
			t.Errorf("counters %+v, want a response timeout", got)
		}
		if err := r.a.RemoveNI(t.Context(), r.na[1]); err != nil {
			t.Fatal(err)
		}
		if err := r.a.Admin().SetPeerHealth(r.nb[0], node.MaxHealth); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ni, peer := r.a.NIs()[1], peerNI(t, r.a, r.nb[0].String())
		r.a.Admin().ResetCounters()
		if got := r.a.Admin().Counters(); got != (node.Counters{}) {
			t.Errorf("after the reset: %+v", got)
		}
		ni2, peer2 := r.a.NIs()[1], peerNI(t, r.a, r.nb[0].String())
		if none := (node.Traffic{}); ni2.Traffic != none || peer2.Traffic != none {
			t.Errorf("after the reset: NI %+v, peer NI %+v", ni2.Traffic, peer2.Traffic)
		}
		if ni2.Health != ni.Health || peer2.Health != peer.Health {
			t.Errorf("health %+v %+v, was %+v %+v", ni2.Health, peer2.Health, ni.Health, peer.Health)
		}
	})
}

// Each NI and peer NI counts its own failures. The time that a PUT takes to leave is
// measured only for PUTs that were sent at the first attempt.
//
// lnet-core 10.2
func TestFiguresOfNIsAndPeerNIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		for _, s := range []lnd.Status{lnd.StatusLocalDropped, lnd.StatusRemoteDropped, lnd.StatusNetworkTimeout} {
			failed := false
			r.fails(func(tx *lnd.Tx) error {
				if failed {
					return nil
				}
				failed = true
				return as(s)(tx)
			})
			r.put(t, node.PutOptions{})
		}
		egress := func() (ni, peer uint64) {
			for _, i := range r.a.NIs()[1:] {
				ni += i.Traffic.PutEgress.Samples
			}
			for _, p := range peerNIs(r.a) {
				peer += p.Traffic.PutEgress.Samples
			}
			return ni, peer
		}
		if ni, peer := egress(); ni != 0 || peer != 0 {
			t.Errorf("%d and %d samples of messages that were sent twice, or not at all", ni, peer)
		}
		var nis, peers node.HealthCounters
		for _, i := range r.a.NIs()[1:] {
			nis.Dropped += i.Health.Dropped
			nis.RemoteDropped += i.Health.RemoteDropped
			nis.NetworkTimeouts += i.Health.NetworkTimeouts
		}
		for _, p := range peerNIs(r.a) {
			peers.Dropped += p.Health.Dropped
			peers.RemoteDropped += p.Health.RemoteDropped
			peers.NetworkTimeouts += p.Health.NetworkTimeouts
		}
		if want := (node.HealthCounters{Dropped: 1}); nis != want {
			t.Errorf("NIs: %+v, want %+v", nis, want)
		}
		if want := (node.HealthCounters{RemoteDropped: 1, NetworkTimeouts: 1}); peers != want {
			t.Errorf("peer NIs: %+v, want %+v", peers, want)
		}
		r.put(t, node.PutOptions{})
		if ni, peer := egress(); ni != 1 || peer != 1 {
			t.Errorf("%d and %d samples, want 1", ni, peer)
		}
	})
}
