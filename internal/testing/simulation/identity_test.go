package simulation

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/discovery"
)

// The checker compares one node's view of another with the other node only if each must be able to reach
// the other. A node that was configured with NIDs that do not exist may be unable to announce its
// changes.
func TestWhoIsHeldToKnowAnother(t *testing.T) {
	for _, sure := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newScenario(1)
			s.nodes, s.rails, s.oneNet, s.ipv6, s.routers = 2, 2, false, false, 0
			s.modes, s.configured = []discovery.Mode{discovery.On, discovery.On}, []bool{false, true}
			s.absent, s.homes = [][]bool{{false, false}, {false, false}}, [][]int{{0, 1}, {0, 1}}
			w := newWorld(s, Options{})
			a, b := w.members[0], w.members[1]
			w.sendRequired(w.requiredMessages(func(a, b *member) bool { return true }))
			w.awaitDiscovery()
			w.checkView(a, b)
			a.absent[0] = !sure
			for _, d := range a.devices { // b's changes will not arrive
				d.SetUp(false)
			}
			time.Sleep(time.Second)
			before := len(w.result.Failures)
			b.current().removeNI(0)
			b.current().addNI(0)
			synctest.Wait()
			w.checkView(a, b)
			if found := len(w.result.Failures) > before; before > 0 || found != sure {
				t.Errorf("sure %t: found %t, %v", sure, found, w.result.Failures)
			}
			for _, d := range slices.Concat(a.devices, b.devices) {
				d.SetUp(true)
			}
			w.finish()
		})
	}
}
