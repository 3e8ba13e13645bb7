package node_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Health stays within 0 and 1000, whatever is set or happens. Sensitivity is the step;
// with a sensitivity of 0, health does not change.
//
// discovery 9.1, 9.7
func TestHealthStaysInRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ sensitivity, set, failed, mended int }{
			{100, 1000, 900, 1000},
			{100, 50, 0, 100},
			{100, 950, 850, 950},
			{1000, 500, 0, 1000},
			{1, 0, 0, 1},
			{0, 500, 500, 500},
			{100, -1, 900, 1000},
			{100, 2000, 900, 1000},
		} {
			p := static()
			p.HealthSensitivity, p.RetryCount = c.sensitivity, 0
			r := newRails(t, p, 1, 1)
			if err := r.a.Admin().SetNIHealth(r.na[0], c.set); err != nil {
				t.Fatal(err)
			}
			r.fails(as(lnd.StatusLocalError))
			r.put(t, node.PutOptions{})
			failed, _ := r.healthOf()
			r.fails(nil)
			r.put(t, node.PutOptions{})
			mended, _ := r.healthOf()
			if failed[0] != c.failed || mended[0] != c.mended {
				t.Errorf("sensitivity %d, set to %d: failure leaves %d, success %d; want %d and %d",
					c.sensitivity, c.set, failed[0], mended[0], c.failed, c.mended)
			}
		}
	})
}

// If a program's memory is gone, NIs lose no health, and the message is not resent.
func TestLostMemoryCostsNoHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 2)
		r.fails(func(tx *lnd.Tx) error { return fault(lnd.StatusLocalAborted, tx.To.NID, syscall.EFAULT) })
		if e := r.put(t, node.PutOptions{}); !errors.Is(e.Err, syscall.EFAULT) {
			t.Errorf("event %+v", e)
		}
		if sent := r.took(); len(sent) != 1 {
			t.Errorf("sent %+v", sent)
		}
		if nis, peers := r.healthOf(); lost(nis)+lost(peers) != 0 {
			t.Errorf("NIs %v, peer NIs %v", nis, peers)
		}
	})
}

// What a successful send restores and what a successful receive restores.
//
// discovery 9.5
func TestSuccessMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 1)
		set := func() {
			t.Helper()
			if err := r.a.Admin().SetNIHealth(r.na[0], 500); err != nil {
				t.Fatal(err)
			}
			if err := r.a.Admin().SetPeerHealth(r.nb[0], 500); err != nil {
				t.Fatal(err)
			}
		}
		check := func(step string, ni, peer int) {
			t.Helper()
			synctest.Wait()
			nis, peers := r.healthOf()
			if nis[0] != ni || peers[0] != peer {
				t.Errorf("%s: NI %d, peer NI %d, want %d and %d", step, nis[0], peers[0], ni, peer)
			}
		}
		r.put(t, node.PutOptions{})
		set()
		r.put(t, node.PutOptions{})
		check("sent", 600, 500)
		set()
		h := bind(t, r.b, portals.MD{Bytes: make([]byte, 1), Threshold: 1, Unlink: true})
		put(t, r.b, h, lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 9})
		check("dropped on arrival", 500, 500)
		sink(t, r.a, portals.OpPut)
		h = bind(t, r.b, portals.MD{Bytes: make([]byte, 1), Threshold: 1, Unlink: true})
		put(t, r.b, h, lnet.ProcessID{NID: r.na[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 1})
		check("received", 600, 600)
	})
}

// The advertised status follows the lowest and the highest value of health.
//
// discovery 9.4, 9.5, 9.7
// lnet-core 12.1
// lnetctl 4.5 (2)
func TestStatusFollowsHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.HealthSensitivity = 500
		r := newRails(t, p, 1, 1)
		check := func(step string, want lnet.NIStatus) {
			t.Helper()
			synctest.Wait()
			if got := r.a.NIs()[1].Status; got != want || r.a.PingInfo().NIs[0].Status != want {
				t.Errorf("%s: status %v, ping info %+v, want %v", step, got, r.a.PingInfo(), want)
			}
		}
		r.fails(as(lnd.StatusLocalError))
		r.put(t, node.PutOptions{})
		check("500", lnet.StatusUp)
		r.put(t, node.PutOptions{})
		check("0", lnet.StatusDown)
		r.fails(nil)
		r.put(t, node.PutOptions{})
		check("500 again", lnet.StatusDown)
		r.put(t, node.PutOptions{})
		check("1000", lnet.StatusUp)
		for _, c := range []struct {
			health int
			want   lnet.NIStatus
		}{{0, lnet.StatusDown}, {500, lnet.StatusDown}, {1000, lnet.StatusUp}, {500, lnet.StatusUp}} {
			if err := r.a.Admin().SetNIHealth(r.na[0], c.health); err != nil {
				t.Fatal(err)
			}
			check("set by hand", c.want)
		}
	})
}

// An overdue response lowers the health of the last next hop of the request, whatever
// number of NIDs its peer has.
//
// discovery 9.4
// lnet-core 6.4 tracker (2), 6.4 tracker (5)
// selection 5.7 (5)
func TestOverdueResponseCostsHealth(t *testing.T) {
	for _, nids := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 1, nids)
			tries := 0
			var last lnet.NID
			r.fails(func(tx *lnd.Tx) error {
				if tx.Header.Type != lnet.MsgPut {
					return nil
				}
				last = tx.To.NID
				if tries++; tries == 1 && nids > 1 {
					return as(lnd.StatusRemoteDropped)(tx) // so it is sent to the other one
				}
				return nil
			})
			var e recorder
			h := bind(t, r.a, portals.MD{Bytes: make([]byte, 1), Threshold: 2, Handler: &e})
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: 9, Ack: true})
			r.took()
			if want := r.nb[nids-1]; last != want {
				t.Fatalf("last sent to %s, want %s", last, want)
			}
			e.take()
			if err := r.a.Admin().SetPeerHealth(last, 1000); err != nil {
				t.Fatal(err)
			}
			before := r.a.Admin().Counters().ResponseTimeouts
			time.Sleep(150*time.Second - time.Millisecond)
			synctest.Wait()
			if got := e.take(); got != nil {
				t.Errorf("%d NIDs: too early: %v", nids, got)
			}
			// The next search is at 185 s. Recovery pings start after that and restore health; they
			// must not do so here.
			r.fails(as(lnd.StatusRemoteError))
			time.Sleep(36 * time.Second)
			synctest.Wait()
			if d := cmp.Diff([]portals.EventType{portals.EventUnlink}, e.types()); d != "" {
				t.Errorf("%d NIDs: events (-want +got):\n%s", nids, d)
			}
			if got := r.a.Admin().Counters().ResponseTimeouts - before; got != 1 {
				t.Errorf("%d NIDs: %d response timeouts", nids, got)
			}
			for _, p := range peerNIs(r.a) {
				if p.NID == last && p.Health.Value > 900 {
					t.Errorf("%d NIDs: health of %s is %d", nids, last, p.Health.Value)
				}
			}
		})
	}
}

// Given health that falls and rises concurrently, when all goroutines are idle, then the
// status matches the final health.
//
// lnet-core 12.1
func TestStatusFollowsHealthUnderContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pairs = 2
		rounds := 60_000
		if testenv.Race {
			rounds /= 6
		}
		p := newPair(t)
		for range rounds {
			var all sync.WaitGroup
			for k := range 2 * pairs {
				all.Go(func() {
					if err := p.a.Admin().SetNIHealth(p.ida.NID, k%2*node.MaxHealth); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			i := p.a.NIs()[1]
			if down := i.Status == lnet.StatusDown; down != (i.Health.Value == 0) {
				t.Fatalf("status %v, health %d", i.Status, i.Health.Value)
			}
		}
	})
}
