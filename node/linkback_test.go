package node_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Given a message that has partly been sent or has partly arrived, when the link is down
// until just before the LND timeout, then no connection is closed after it is up again,
// although TCP resumes later. The message completes over the same connections. A
// connection without progress for another LND timeout is closed.
func TestTimersBeginAnewWhenTheLinkComesBack(t *testing.T) {
	const (
		timeout = 20 * time.Second
		size    = 1 << 20
		portal  = 3
	)
	for name, row := range map[string]struct {
		get, cut bool
		away     time.Duration
	}{
		"sending":                   {away: timeout - 2*time.Second},
		"receiving":                 {get: true, away: timeout - 2*time.Second},
		"sending, cut elsewhere":    {away: timeout - 2*time.Second, cut: true},
		"receiving, cut elsewhere":  {get: true, away: timeout - 2*time.Second, cut: true},
		"sending, back in no time":  {away: time.Millisecond},
		"receiving, away for short": {get: true, away: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := driverConfig()
				c.SockTimeout = timeout
				r := newTwoRailsWith(t, c)
				attach(t, r.nodes[mortal], portals.Entry{Portal: portal}, portals.MD{
					Bytes: make([]byte, size), Threshold: portals.Unlimited, Options: portals.OpPut | portals.OpGet | portals.ManageRemote,
				})
				here, there := r.hosts[watcher].Interface("eth0"), r.hosts[mortal].Interface("eth0")
				r.SetLink(here, there, simlnd.Both, simlnd.Link{Bandwidth: size / 4})
				before := r.ConnsBetween(here, there)
				to, from := lnet.ProcessID{NID: r.nid(mortal, 0), PID: lnet.PIDLustre}, r.nid(watcher, 0)
				done := make(chan error, 1)
				go func() {
					var err error
					if row.get {
						_, err = r.nodes[watcher].GetWait(t.Context(), make([]byte, size), to, node.GetOptions{Source: from, Portal: portal})
					} else {
						_, err = r.nodes[watcher].PutWait(t.Context(), make([]byte, size), to, node.PutOptions{Source: from, Portal: portal, Ack: true})
					}
					done <- err
				}()
				time.Sleep(2 * time.Second) // half of it
				here.SetUp(false)
				time.Sleep(row.away)
				if row.cut {
					r.Partition(here, there, simlnd.Both)
				}
				here.SetUp(true)
				back := time.Now()
				err := <-done
				same := slices.Equal(before, r.ConnsBetween(here, there))
				took := time.Since(back)
				switch {
				case !row.cut && (err != nil || !same):
					t.Errorf("%v after the link was back: %v; the same connections: %t", took, err, same)
				case row.cut && (err == nil || took < timeout):
					t.Errorf("%v after the link was back, of which nothing came: %v", took, err)
				}
			})
		})
	}
}
