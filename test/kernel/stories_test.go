package kernel

import "testing"

// Given a kernel node and lnetd with two wires between them.
//
// selftest 11 (7)
func TestBesideAKernel(t *testing.T) {
	onEach(t, ethernet, func(t *testing.T, l *lab) {
		k := l.guest(t, 0, 1)
		h := l.host(t, []int{0, 1}, false)
		pingAndDiscovery(t, k, &h.daemon)
		t.Run("selftest", func(t *testing.T) { selftest(t, k, &h.daemon) })
		t.Run("rails", func(t *testing.T) { railCutAndRestored(t, k, h) })
		pingAndDiscovery(t, k, &h.daemon)
		h.Stop(t)
	})
}

// Then each pings all NIDs of the other, and discovers them.
func pingAndDiscovery(t *testing.T, k *guest, d *daemon) {
	t.Helper()
	for _, network := range d.networks {
		d.wantPing(t, k.nid(network))
		k.wantPing(t, d.nid(network))
	}
	d.wantDiscover(t, k.member)
	k.wantDiscover(t, d.member)
}

// When either side controls LNet selftest, with either as the client and the other as the server,
// then large and small data is transferred correctly without errors.
func selftest(t *testing.T, k *guest, h *daemon) {
	for _, ends := range [][2]string{{h.primary(), k.primary()}, {k.primary(), h.primary()}} {
		from, to := ends[0], ends[1]
		k.lst(t, from, to, "brw write check=full size=1M")
		k.lst(t, from, to, "brw read check=full size=4K")
		h.lst(t, from, to, "--check", "full", "--size", "1M")
		h.lst(t, from, to, "--check", "full", "--size", "4K", "--write")
	}
	k.lst(t, k.primary(), h.primary(), "ping")
	h.lst(t, h.primary(), k.primary(), "--ping")
}

// When one of two rails is cut, at the kernel's end or at ours, then each end soon reaches the
// other over the other rail, every time. After the repair it answers over the repaired rail, and in
// the end both carry load. There is no load before the end: a session whose RPCs are aborted can
// make a kernel's selftest unusable.
func railCutAndRestored(t *testing.T, k *guest, h *host) {
	for _, wire := range []wire{k.middle(t, 1), k.end(1), h.end(1)} {
		t.Log("cut ", wire.name)
		cutAndRestored(t, k, &h.daemon, wire, 1)
	}
	h.wantCarrying(t, k, 0, 1)
}

// When one of two rails is cut, then each end soon reaches the other over the other one, every
// time, and after the repair over the repaired one.
func cutAndRestored(t *testing.T, k *guest, d *daemon, w wire, cut int) {
	t.Helper()
	w.pull(t)
	for range 3 {
		d.wantPing(t, k.nid(1-cut))
		k.wantPing(t, d.nid(1-cut))
	}
	w.plug(t)
	d.within(t, []string{"ping", "--timeout", pingTimeout, "--source", d.nid(cut), k.nid(cut)}, k.nid(cut))
	k.wantPing(t, d.nid(cut))
}

// Given a kernel router between two lnetds on different nets, they ping and discover each other,
// and load passes through the router in both directions.
func TestKernelRouter(t *testing.T) {
	onEach(t, ethernet, func(t *testing.T, l *lab) {
		k := l.guest(t, 0, 1)
		k.must(t, "lnetctl set routing 1")
		a := l.host(t, []int{0}, false, route{1, k.nid(0)})
		b := l.host(t, []int{1}, false, route{0, k.nid(1)})
		throughRouter(t, a, b)
		a.lst(t, a.primary(), b.primary(), "--check", "full", "--size", "1M")
		a.lst(t, a.primary(), b.primary(), "--check", "full", "--size", "1M", "--write")
		b.lst(t, b.primary(), a.primary(), "--check", "full", "--size", "4K", "--write")
		a.Stop(t)
		b.Stop(t)
	})
}

// Given lnetd as the router between two kernel nodes, and between a kernel node and lnetd, they
// ping and discover each other, and load passes through the router in both directions.
func TestRouterOfKernels(t *testing.T) {
	onEach(t, ethernet, func(t *testing.T, l *lab) {
		r := l.host(t, []int{0, 1}, true)
		a := l.guest(t, 0)
		b := l.guest(t, 1)
		c := l.host(t, []int{1}, false, route{0, r.nid(1)})
		a.route(t, 1, r.nid(0))
		b.route(t, 0, r.nid(1))
		throughRouter(t, a, b)
		throughRouter(t, a, c)
		a.lst(t, a.primary(), b.primary(), "brw write check=full size=1M")
		b.lst(t, b.primary(), a.primary(), "brw read check=full size=1M")
		a.lst(t, a.primary(), c.primary(), "brw read check=full size=1M")
		c.lst(t, c.primary(), a.primary(), "--check", "full", "--size", "1M")
		if r.traffic(t, 0) == 0 || r.traffic(t, 1) == 0 {
			t.Error("nothing went through the router")
		}
		c.Stop(t)
		r.Stop(t)
	})
}

// node is a kernel node or an lnetd.
type node interface {
	wantPing(t *testing.T, to string)
	wantDiscover(t *testing.T, of member)
	self() member
}

func (m member) self() member { return m }

// throughRouter checks that two nodes on different nets reach each other.
func throughRouter(t *testing.T, a, b node) {
	t.Helper()
	for _, ends := range [][2]node{{a, b}, {b, a}} {
		to := ends[1].self()
		ends[0].wantPing(t, to.primary())
		ends[0].wantDiscover(t, to)
	}
}
