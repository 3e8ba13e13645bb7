package discovery

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// A peer is forgotten unless an administrator, an upper layer or a route refers to it, it
// is being processed, or a message or a caller waits for it. A ping under way alone does
// not keep it.
func TestForget(t *testing.T) {
	nid, other := manyNID(0, 2), manyNID(0, 3)
	park := func(m *Machine) { m.Park(0, nid, 1) }
	discover := func(m *Machine) { m.Discover(0, nid, 2) }
	for _, c := range []struct {
		name  string
		given []func(m *Machine)
		hold  bool // remains in the queue: no step is made
		want  Hold
	}{
		{name: "it was met", given: []func(*Machine){func(m *Machine) { m.FindOrCreate(0, nid) }}, want: Free},
		{name: "a ping is under way, and nothing waits for it", given: []func(*Machine){func(m *Machine) { m.StartRound(0, nid) }}, want: Free},
		{name: "it is to be pinged", given: []func(*Machine){func(m *Machine) { m.StartRound(0, nid) }}, hold: true, want: Busy},
		{name: "a message waits", given: []func(*Machine){park}, want: Busy},
		{name: "a caller waits", given: []func(*Machine){discover}, want: Busy},
		{name: "one of each waits", given: []func(*Machine){park, discover}, want: Busy},
		{name: "it is configured", given: []func(*Machine){func(m *Machine) { _ = m.Configure(0, nid, nil, ConfigureOptions{}) }}, want: Named},
		{name: "its primary NID is locked", given: []func(*Machine){func(m *Machine) { _, _ = m.AddPeer(0, []lnet.NID{nid}, true) }}, want: Named},
		{name: "a route leads through it", given: []func(*Machine){func(m *Machine) { _ = m.AddRoute(0, nid) }}, want: Named},
		{name: "it is named as another NID of a locked peer", given: []func(*Machine){func(m *Machine) { _, _ = m.AddPeer(0, []lnet.NID{other, nid}, true) }}, want: Named},
	} {
		m := New(Config{Local: Local{Seq: 2}, Nets: []lnet.Net{nid.Net()}})
		for _, event := range c.given {
			event(m)
		}
		for !c.hold && m.HasWork() {
			m.Step(0)
		}
		for v, got := range m.Holds() {
			if v.Primary == nid && got != c.want {
				t.Errorf("%s: hold %d, want %d", c.name, got, c.want)
			}
		}
		if gone := m.Forget(0, nid); gone != (c.want == Free) || gone != (m.Find(nid) == nil) {
			t.Errorf("%s: forgotten %v, want %v", c.name, gone, c.want == Free)
		}
		if err := m.check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if New(Config{}).Forget(0, nid) {
		t.Error("a peer that is not there was forgotten")
	}
}
