package node_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// lastEvent waits a while for the last event of an MD.
func lastEvent(r *recorder, within time.Duration) (last portals.Event) {
	for range within / (100 * time.Millisecond) {
		for _, e := range r.take() {
			if last = e; e.Unlinked {
				return last
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return portals.Event{}
}

// Given requests of all kinds that a peer with two NIDs has received and not answered,
// from blocking calls and from MDs with events, one or several per MD, when the peer
// restarts, then each ends with ErrRestarted, once, and long before its deadline. This
// holds whether responses are tracked because of the node's parameters or the MD's
// options.
func TestEveryRequestToTheFormerLifeEnds(t *testing.T) {
	for name, row := range map[string]struct {
		tracking node.ResponseTracking
		options  portals.MDOptions
	}{
		"by parameters": {node.TrackAll, 0}, "by options": {node.TrackNone, portals.TrackResponse},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTwoRails(t)
				n := r.nodes[watcher]
				p := n.Admin().Parameters()
				p.ResponseTracking = row.tracking
				if err := n.Admin().SetParameters(p); err != nil {
					t.Fatal(err)
				}
				const nobody = portalLazy // accepts no GETs, and PUTs only later
				waiting := map[string]pendingPut{}
				events := map[string]*recorder{}
				for rail := range 2 {
					by := []string{" by rail 0", " by rail 1"}[rail]
					source, to := r.nid(watcher, rail), lnet.ProcessID{NID: r.nid(mortal, rail)}
					waiting["PutWait"+by] = pending(func() error { return r.put(t, rail, nobody) })
					waiting["GetWait"+by] = pending(func() error {
						_, err := n.GetWait(t.Context(), make([]byte, 1), to, node.GetOptions{Source: source, Portal: nobody})
						return err
					})
					for what, requests := range map[string]int{"one": 1, "three": 3} {
						puts, gets := &recorder{}, &recorder{}
						events[what+" PUT"+by], events[what+" GET"+by] = puts, gets
						md := func(r *recorder) lnet.Handle {
							return bind(t, n, portals.MD{Bytes: make([]byte, 1), Threshold: 50, Options: row.options, Handler: r})
						}
						hp, hg := md(puts), md(gets)
						for range requests {
							put(t, n, hp, to, node.PutOptions{Source: source, Portal: nobody, Ack: true})
							if err := n.Get(hg, to, node.GetOptions{Source: source, Portal: nobody}); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				synctest.Wait()
				r.dies(t)
				if _, err := r.nodes[mortal].Ping(t.Context(), lnet.ProcessID{NID: r.nid(watcher, 0)}, node.PingOptions{Source: r.nid(mortal, 0)}); err != nil {
					t.Fatal(err)
				}
				for name, w := range waiting {
					if over, err := w.ends(5 * time.Second); !over || !errors.Is(err, node.ErrRestarted) {
						t.Errorf("%s: ended %v, with %v", name, over, err)
					}
				}
				for name, q := range events {
					if last := lastEvent(q, 5*time.Second); !last.Unlinked || !errors.Is(last.Err, node.ErrRestarted) {
						t.Errorf("%s: %s, last: %v, with %v", name, last.Type, last.Unlinked, last.Err)
					}
				}
				if got := n.Admin().Counters().Trackers; got != 0 {
					t.Errorf("%d trackers", got)
				}
			})
		})
	}
}

// Given requests to a target behind a router, when the router restarts, then they do not
// end, because the target may still answer through this router or another one. A restart
// of the target itself is not detected on this side of the router, so its requests end
// when they time out.
func TestARoutersLifeEndsNoRequestToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouted(t, 2, static())
		const nobody = 9 // portal
		seen := watch(r.fabric)
		ask := func() <-chan error {
			return outcome(func() error {
				_, err := r.client.PutWait(t.Context(), []byte("x"), r.ids, node.PutOptions{Portal: nobody, Ack: true})
				return err
			})
		}
		first, second := ask(), ask()
		synctest.Wait()
		if len(*seen) < 2 {
			t.Fatal("nothing was sent")
		}
		client := r.fabric.ports[parseNID(t, "10.77.0.10@tcp")]
		for k := range routerNIDs {
			client.upper.PeerRestarted(parseNID(t, routerNIDs[k][0]))
		}
		time.Sleep(10 * time.Second)
		awaits(t, "when the routers have restarted", first)
		awaits(t, "when the routers have restarted", second)
		puts := slices.IndexFunc(*seen, func(w wire) bool { return w.typ == lnet.MsgPut })
		late := lnet.Header{
			Type: lnet.MsgAck, Src: r.ids.NID, SrcPID: r.ids.PID, Dest: client.nid, DestPID: lnet.PIDLustre,
			Handle: (*seen)[puts].handle, Length: 1,
		}
		if err := client.inject(parseNID(t, routerNIDs[1][0]), late, nil); err != nil {
			t.Fatal(err)
		}
		var answered, silent error
		select {
		case answered = <-first:
			silent = <-second
		case answered = <-second:
			silent = <-first
		}
		if answered != nil || !errors.Is(silent, node.ErrTimedOut) {
			t.Errorf("answered: %v; not answered: %v, want ErrTimedOut", answered, silent)
		}
	})
}

// pending returns a call that is waiting.
func pending(f func() error) pendingPut {
	w := pendingPut{make(chan error, 1)}
	go func() { w.done <- f() }()
	return w
}
