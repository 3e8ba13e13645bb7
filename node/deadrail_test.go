package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a rail that has been dead for long, when the other rail is cut for 20 s, then the
// messages there wait, although attempts to connect over the dead rail fail meanwhile,
// and arrive when TCP recovers.
func TestADeadRailTakesNothingFromOneThatHeals(t *testing.T) {
	for at := 40 * time.Second; at < 4*time.Minute; at += 7 * time.Second {
		t.Run(at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTwoRails(t)
				send := func(n, rail int, o node.PutOptions) *recorder {
					e := &recorder{}
					o.Portal = portalOpen
					for range n {
						h := bind(t, r.nodes[watcher], portals.MD{Bytes: make([]byte, 1<<20), Threshold: 1, Unlink: true, Handler: e})
						put(t, r.nodes[watcher], h, lnet.ProcessID{NID: r.nid(mortal, rail), PID: lnet.PIDLustre}, o)
					}
					return e
				}
				r.Partition(r.hosts[watcher].Interface("eth0"), r.hosts[mortal].Interface("eth0"), simlnd.Both)
				send(1, 0, node.PutOptions{Source: r.nid(watcher, 0)})
				time.Sleep(at)
				r.Partition(r.second[watcher], r.second[mortal], simlnd.Both)
				done := send(40, 1, node.PutOptions{})
				time.Sleep(20 * time.Second)
				r.Heal(r.second[watcher], r.second[mortal], simlnd.Both)
				time.Sleep(20 * time.Second)
				events := done.take()
				if len(events) != 40 {
					t.Errorf("%d events, want 40", len(events))
				}
				for _, e := range events {
					if e.Err != nil {
						t.Error(e.Err)
					}
				}
			})
		})
	}
}
