package node_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// twoRails is two nodes over simlnd, each with an NI on tcp and one on tcp1.
type twoRails struct {
	simulated
	hosts   [2]*simlnd.Host
	second  [2]*simlnd.Device // those of tcp1
	drivers [2]lnd.Driver
	nodes   [2]*node.Node
}

const (
	watcher = iota // detects restarts of the other node
	mortal
)

func newTwoRails(t *testing.T) *twoRails {
	t.Helper()
	return newTwoRailsWith(t, driverConfig())
}

// newTwoRailsWith is newTwoRails with a configuration for the watcher's driver.
func newTwoRailsWith(t *testing.T, c socklnd.Config) *twoRails {
	t.Helper()
	r := &twoRails{simulated: newSimulated(t)}
	for k, name := range []string{"watcher", "mortal"} {
		r.hosts[k] = r.Host(name, r.nid(k, 0).IP().String())
		r.second[k] = r.hosts[k].AddDevice("eth1", r.nid(k, 1).IP().String())
		if k == mortal {
			c = driverConfig()
		}
		d, err := simlnd.NewDriver(r.hosts[k], c)
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, d)
		r.drivers[k] = d
		r.begin(t, k)
	}
	for rail := range 2 {
		discover(t, r.nodes[watcher], r.nid(mortal, rail))
		if n := r.put(t, rail, portalOpen); n != nil {
			t.Fatal(n)
		}
	}
	return r
}

// Portals of the mortal node.
const (
	portalOpen = 1
	portalLazy = 2 // accepts nothing for now
)

func (r *twoRails) nid(k, rail int) lnet.NID {
	return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, uint16(rail)), netip.AddrFrom4([4]byte{10, byte(rail), 0, byte(k + 1)}))
}

// begin starts an incarnation of a node.
func (r *twoRails) begin(t *testing.T, k int) {
	t.Helper()
	n := newNode(t, node.Config{Parameters: new(node.DefaultParameters())})
	r.nodes[k] = n
	for rail := range 2 {
		r.add(t, k, rail)
	}
	if k == mortal {
		sink(t, n, portals.OpPut)
		if err := n.SetLazy(portalLazy); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *twoRails) add(t *testing.T, k, rail int) {
	t.Helper()
	nid := r.nid(k, rail)
	if _, err := r.nodes[k].AddNI(context.Background(), r.drivers[k], lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		t.Fatal(err)
	}
}

// put sends a PUT from the watcher over a rail and waits for its ACK.
func (r *twoRails) put(t *testing.T, rail int, portal uint32) error {
	to := lnet.ProcessID{NID: r.nid(mortal, rail), PID: lnet.PIDLustre}
	_, err := r.nodes[watcher].PutWait(t.Context(), []byte("x"), to, node.PutOptions{Source: r.nid(watcher, rail), Portal: portal, Ack: true})
	return err
}

// pendingPut is a PUT whose ACK does not arrive.
type pendingPut struct{ done chan error }

func (r *twoRails) wait(t *testing.T, rail int) pendingPut {
	w := pendingPut{make(chan error, 1)}
	go func() { w.done <- r.put(t, rail, portalLazy) }()
	synctest.Wait()
	return w
}

// ends waits up to the given time until the PUT has ended.
func (w pendingPut) ends(within time.Duration) (over bool, err error) {
	select {
	case err := <-w.done:
		return true, err
	case <-time.After(within):
		return false, nil
	}
}

// dies ends the mortal node as a power failure does, and starts its next incarnation.
func (r *twoRails) dies(t *testing.T) {
	t.Helper()
	r.hosts[mortal].Crash()
	if err := r.nodes[mortal].Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.begin(t, mortal)
}

// Given a peer that has restarted, when one rail shows that, then all requests to its
// previous incarnation end soon, over whatever rail they were sent. This holds although
// nothing was sent since, whether the rail answers with a reset or not at all. The next
// request is answered.
func TestANewLifeIsKnownOnAllRails(t *testing.T) {
	for name, row := range map[string]struct {
		silent bool // the other rail, after the crash
		probed bool // a message was sent there after the crash, and reset
		within time.Duration
	}{
		"nothing was sent": {false, false, 2 * time.Second},
		"it was reset":     {false, true, 2 * time.Second},
		"it is silent":     {true, false, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTwoRails(t)
				direct, other := r.wait(t, 0), r.wait(t, 1)
				if row.silent {
					r.Partition(r.second[watcher], r.second[mortal], simlnd.Both)
				}
				r.dies(t)
				var late pendingPut
				if row.probed {
					late = r.wait(t, 1)
					time.Sleep(time.Second)
				}
				if over, err := other.ends(3 * time.Second); over {
					t.Fatalf("ended before anybody knew: %v", err)
				}
				// The new incarnation connects over the first rail.
				if _, err := r.nodes[mortal].Ping(t.Context(), lnet.ProcessID{NID: r.nid(watcher, 0)}, node.PingOptions{Source: r.nid(mortal, 0)}); err != nil {
					t.Fatal(err)
				}
				for what, w := range map[string]pendingPut{"this rail": direct, "the other": other, "the other, later": late} {
					if w.done == nil {
						continue
					}
					if over, err := w.ends(row.within); !over || !errors.Is(err, node.ErrRestarted) {
						t.Errorf("%s: ended %v, with %v", what, over, err)
					}
				}
				if row.silent {
					r.Heal(r.second[watcher], r.second[mortal], simlnd.Both)
					time.Sleep(2 * time.Minute) // back-off
				}
				for rail := range 2 {
					if err := r.put(t, rail, portalOpen); err != nil {
						t.Errorf("the new life by rail %d: %v", rail, err)
					}
				}
				if got := r.nodes[watcher].Admin().Counters().Trackers; got != 0 {
					t.Errorf("%d trackers", got)
				}
				for _, i := range r.nodes[watcher].NIs()[1:] { // a report and a HELLO count as one restart
					for _, c := range i.Driver {
						if c.Name == "peers_restarted_total" && c.Value != 1 {
							t.Errorf("%s was told of %d restarts, want 1", i.NID, c.Value)
						}
					}
				}
			})
		})
	}
}

// Given a peer that removes one NI and adds it again, so that only this NI has a new
// incarnation, then requests over another NI, whose connections stay open, are not
// affected: the ACK arrives when possible.
func TestANewLifeOfOneNIEndsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTwoRails(t)
		w := r.wait(t, 1)
		conns := len(r.ConnsBetween(r.second[watcher], r.second[mortal]))
		if err := r.nodes[mortal].RemoveNI(context.Background(), r.nid(mortal, 0)); err != nil {
			t.Fatal(err)
		}
		r.add(t, mortal, 0)
		if _, err := r.nodes[mortal].Ping(t.Context(), lnet.ProcessID{NID: r.nid(watcher, 0)}, node.PingOptions{Source: r.nid(mortal, 0)}); err != nil {
			t.Fatal(err)
		}
		if over, err := w.ends(time.Minute); over {
			t.Fatalf("ended with %v", err)
		}
		if got := len(r.ConnsBetween(r.second[watcher], r.second[mortal])); got != conns {
			t.Errorf("%d connections by the other rail, want %d as before", got, conns)
		}
		attach(t, r.nodes[mortal], portals.Entry{Portal: portalLazy}, portals.MD{
			Bytes: make([]byte, 1), Threshold: 1, Options: portals.OpPut,
		})
		if over, err := w.ends(time.Second); !over || err != nil {
			t.Errorf("answered %v, with %v", over, err)
		}
	})
}

// Given a message that was not started when its connection ended because the peer had
// restarted, then it is resent although there is no other path, and no health is lost. A
// message that was started is not resent.
func TestWhatTheFormerLifeDidNotGetGoesAgain(t *testing.T) {
	for _, row := range []struct {
		status lnd.Status
		again  bool
	}{{lnd.StatusLocalDropped, true}, {lnd.StatusLocalError, false}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRails(t, static(), 1, 1)
			tries := 0
			r.fails(func(tx *lnd.Tx) error {
				if tries++; tries == 1 {
					return fault(row.status, tx.To.NID, lnd.ErrRestarted)
				}
				return nil
			})
			e := r.put(t, node.PutOptions{})
			if (e.Err == nil) != row.again || !row.again && !errors.Is(e.Err, node.ErrRestarted) {
				t.Errorf("%v: ended with %v", row.status, e.Err)
			}
			if want := map[bool]int{true: 2, false: 1}[row.again]; tries != want {
				t.Errorf("%v: sent %d times, want %d", row.status, tries, want)
			}
			if nis, peers := r.healthOf(); lost(nis) != 0 || lost(peers) != 0 {
				t.Errorf("%v: health of NIs %v, of peer NIs %v", row.status, nis, peers)
			}
		})
	}
}

// Given an incarnation that has ended, then of the requests over its connections only
// those end that were sent and that no other node can answer.
func TestOnlyTheFormerLifesRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRails(t, static(), 1, 2)
		const nobody = 9  // portal
		var went lnet.NID // target of the last request
		r.fails(func(tx *lnd.Tx) error { went = tx.To.NID; return nil })
		ask := func(h lnet.Handle) lnet.NID {
			put(t, r.a, h, lnet.ProcessID{NID: r.nb[0], PID: lnet.PIDLustre}, node.PutOptions{Portal: nobody, Ack: true})
			return went
		}
		type request struct {
			recorder
			to []lnet.NID
		}
		until := func(ok func(to []lnet.NID) bool) *request {
			q := &request{}
			h := bind(t, r.a, portals.MD{Threshold: 50, Handler: q})
			for !ok(q.to) {
				q.to = append(q.to, ask(h))
			}
			return q
		}
		one := func(to []lnet.NID) bool { return len(to) > 0 }
		both := func(to []lnet.NID) bool { return slices.Contains(to, r.nb[0]) && slices.Contains(to, r.nb[1]) }
		var all []*request
		for range 6 {
			all = append(all, until(one))
		}
		all = append(all, until(both))
		over := all[0].to[0]
		r.ports[r.na[0]].upper.PeerRestarted(over)
		young := until(func(to []lnet.NID) bool { return len(to) > 0 && to[len(to)-1] == over })
		time.Sleep(2 * time.Second)
		for k, q := range append(all, young) {
			events := q.take()
			last := events[len(events)-1]
			want := q != young && len(q.to) == 1 && q.to[0] == over
			if ended := last.Type == portals.EventUnlink && errors.Is(last.Err, node.ErrRestarted); ended != want {
				t.Errorf("request %d, to %v: ended %v, want %v: %+v", k, q.to, ended, want, last)
			}
		}
	})
}
