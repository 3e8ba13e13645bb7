package node_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a monitor whose tick was late once, as on a busy machine, then the recovery pings
// counted from there are sent at the ticks at which they are due, not one later, and
// NextPing remains constant.
//
// discovery 9.7
// lnet-core 12.2
func TestALateTickDelaysNoPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 2, 1)
		var slow atomic.Bool
		var at []int
		began := time.Now()
		r.failBy(func(tx *lnd.Tx) error {
			if tx.Header.Length == 272 && tx.To.NID == r.na[0] {
				at = append(at, int(time.Since(began)/(100*time.Millisecond)))
			}
			if slow.Swap(false) {
				time.Sleep(1300 * time.Millisecond)
			}
			return fault(lnd.StatusRemoteError, tx.To.NID, lnd.ErrDisconnected)
		})
		slow.Store(true)
		if err := r.a.Admin().SetNIHealth(r.na[1], 0); err != nil { // its first ping delays the monitor
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if err := r.a.Admin().SetNIHealth(r.na[0], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1400 * time.Millisecond)
		next := r.a.NIs()[1].Health.NextPing
		for range 12 {
			time.Sleep(100 * time.Millisecond)
			if got := r.a.NIs()[1].Health.NextPing; !got.Equal(next) {
				t.Errorf("the next ping is due %v, then %v", next.Sub(began), got.Sub(began))
			}
		}
		if want := began.Add(4 * time.Second); !next.Equal(want) {
			t.Errorf("the next ping is due after %v, want 4s", next.Sub(began))
		}
		time.Sleep(28 * time.Second)
		synctest.Wait()
		if d := cmp.Diff([]int{23, 40, 80, 160}, at); d != "" {
			t.Errorf("pings after so many tenths of a second (-want +got):\n%s", d)
		}
	})
}

// Given a monitor that was late for one search for overdue responses, then the searches
// counted from there are on time.
//
// lnet-core 6.4 tracker (4), 12.2
func TestALateTickDelaysNoTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := static()
		p.TransactionTimeout = 8 * time.Second // a search every 2 s
		r := newRails(t, p, 1, 1)
		to := lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}
		began := time.Now()
		request := func(handler portals.HandlerFunc) {
			h := bind(t, r.a, portals.MD{Threshold: 2, Unlink: true, Handler: handler})
			put(t, r.a, h, to, node.PutOptions{Portal: 9, Ack: true})
		}
		request(func(e *portals.Event) {
			if e.Type == portals.EventUnlink {
				time.Sleep(3300 * time.Millisecond) // the search at 8 s ends at 11.3 s
			}
		})
		var ended time.Duration
		time.Sleep(4900 * time.Millisecond)
		request(func(e *portals.Event) {
			if e.Type == portals.EventUnlink {
				ended = time.Since(began)
			}
		})
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if want := 13 * time.Second; ended != want {
			t.Errorf("a response that was due after 12.9 s is missed after %v, want %v", ended, want)
		}
	})
}
