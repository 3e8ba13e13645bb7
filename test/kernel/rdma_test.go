package kernel

import "testing"

// Given a kernel node and lnetd on a fabric, each pings and discovers the other; data of
// either size goes through unharmed either way, whoever drives the test; and when either
// side is killed and comes back, traffic does, without a hand.
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

// Given lnetd as the router between a kernel node on a fabric and lnetd on Ethernet, then
// they ping and discover each other and load goes through it, either way.
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

// Given a kernel router between lnetd on a fabric and lnetd on Ethernet, the same.
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

// Given a kernel node and lnetd with a fabric and an Ethernet between them, then load goes
// over both; when either is cut in the middle, each end soon reaches the other over the one
// that is left; and over both again when it is whole. (A soft-RoCE device whose own link goes
// down while it connects makes no connections any more, whoever asks for them.)
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
