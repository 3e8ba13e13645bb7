package kernel

import "testing"

// Given a kernel node and lnetd on a fabric, each pings and discovers the other. Data of either
// size is transferred correctly in both directions, whichever side controls the test. If either
// side is killed and restarted, traffic recovers automatically.
//
// o2iblnd 10.2 (1), 10.3 (1), 12.3
// selftest 11 (7)
func TestRDMA(t *testing.T) {
	onEach(t, mixed, func(t *testing.T, l *lab) {
		k := l.guest(t, 0)
		s := l.station(t, []int{0}, false)
		pingAndDiscovery(t, k, &s.daemon)
		t.Run("selftest", func(t *testing.T) { selftest(t, k, &s.daemon) })
		t.Run("lnetd killed", func(t *testing.T) {
			s.kill(t)
			s.start(t)
			pingAndDiscovery(t, k, &s.daemon)
			k.lst(t, k.primary(), s.primary(), "brw write check=full size=1M")
		})
		t.Run("kernel killed", func(t *testing.T) {
			k.crash(t)
			k.boot(t)
			pingAndDiscovery(t, k, &s.daemon)
			k.lst(t, k.primary(), s.primary(), "brw read check=full size=1M")
		})
		s.stop(t)
	})
}

// Given lnetd as the router between a kernel node on a fabric and lnetd on Ethernet, they ping and
// discover each other, and load passes through the router in both directions.
func TestRouterOfRDMA(t *testing.T) {
	onEach(t, mixed, func(t *testing.T, l *lab) {
		r := l.station(t, []int{0, 1}, true)
		k := l.guest(t, 0)
		h := l.host(t, []int{1}, false, route{0, r.nid(1)})
		k.route(t, 1, r.nid(0))
		throughRouter(t, k, h)
		k.lst(t, k.primary(), h.primary(), "brw write check=full size=1M")
		k.lst(t, k.primary(), h.primary(), "brw read check=full size=4K")
		h.lst(t, h.primary(), k.primary(), "--check", "full", "--size", "1M")
		if r.traffic(t, 0) == 0 || r.traffic(t, 1) == 0 {
			t.Error("nothing went through the router")
		}
		h.Stop(t)
		r.stop(t)
	})
}

// Given a kernel router between lnetd on a fabric and lnetd on Ethernet, the same applies.
func TestKernelRouterOfRDMA(t *testing.T) {
	onEach(t, mixed, func(t *testing.T, l *lab) {
		k := l.guest(t, 0, 1)
		k.must(t, "lnetctl set routing 1")
		s := l.station(t, []int{0}, false, route{1, k.nid(0)})
		h := l.host(t, []int{1}, false, route{0, k.nid(1)})
		throughRouter(t, s, h)
		s.lst(t, s.primary(), h.primary(), "--check", "full", "--size", "1M", "--write")
		h.lst(t, h.primary(), s.primary(), "--check", "full", "--size", "1M")
		h.Stop(t)
		s.stop(t)
	})
}

// Given a kernel node and lnetd with a fabric and an Ethernet between them, load uses both. If
// either is cut, each end soon reaches the other over the remaining one, and over both again after
// the repair. (If the link of a soft-RoCE device goes down while it connects, the device makes no
// more connections.)
func TestRailsOfRDMA(t *testing.T) {
	onEach(t, mixed, func(t *testing.T, l *lab) {
		k := l.guest(t, 0, 1)
		s := l.station(t, []int{0, 1}, false)
		pingAndDiscovery(t, k, &s.daemon)
		s.wantCarrying(t, k, 0, 1)
		for cut := range 2 {
			cutAndRestored(t, k, &s.daemon, s.box.middle(t, cut), cut)
		}
		s.wantCarrying(t, k, 0, 1)
		s.stop(t)
	})
}
