package clients

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// total returns the Total of a rule, or the zero Total if the rule is unknown.
func (w *world) total(rule string) (of Total) {
	for _, t := range w.server.Totals() {
		if t.Rule == rule {
			of = t
		}
	}
	return of
}

// A rule has counters before its first client. A counter that first appears with the value 1 would not
// show as an increase.
func TestTotalsOfRulesWithoutClients(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Rules = []Rule{{Name: "b"}, {Name: "a"}} })
	if diff := cmp.Diff([]Total{{}, {Rule: "a"}, {Rule: "b"}}, w.server.Totals()); diff != "" {
		t.Error(diff)
	}
}

// The counters of past clients stay in the totals of their rule.
func TestTotals(t *testing.T) {
	w := newWorld(t, nil)
	p := w.join()
	m := p.share(8192)
	r := p.start(34, 7, 16)
	b := p.register(protocol.Range{Area: m.id, Length: 4096})
	r.submit(of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 100, MaxMessages: 2}, b, 1))
	eventually(t, "the operation is under way", func() bool {
		return w.total("default").Queues[transport.MsgRecv].Depth == 1
	})
	if s := w.total("default"); s.Rule != "default" || s.Clients != 1 || s.TMs != 1 || s.Buffers != 1 || s.Bytes != 8192 || s.CutOffs != 0 {
		t.Errorf("%+v", s)
	}
	if err := w.server.Drop(p.hello.Connection); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is gone", func() bool { return len(w.server.Clients()) == 0 })
	s := w.total("default")
	if s.Clients+s.TMs+s.Buffers != 0 || s.Bytes != 0 || s.CutOffs != 1 || s.Requests < 4 {
		t.Errorf("%+v", s)
	}
	if f := s.Queues[transport.MsgRecv]; f.Depth != 0 || f.Failed != 1 {
		t.Errorf("%+v", f)
	}
}

// The counters of a removed rule disappear when its last client has gone. Those of an existing rule stay.
// They include the sleeps and bells of stopped TMs.
func TestTotalsOfRemovedRules(t *testing.T) {
	rule := func(name string) []Rule { return []Rule{{Name: name, UIDs: []uint32{uint32(os.Geteuid())}}} }
	w := newWorld(t, func(c *Config) { c.Rules = rule("old") })
	rules := func() (names []string) {
		for _, total := range w.server.Totals() {
			names = append(names, total.Rule)
		}
		return names
	}
	first := w.one(7, 16)
	eventually(t, "lnetd sleeps", func() bool { return w.total("old").Waits > 0 })
	first.tm.submit(shm.Submission{Opcode: shm.OpNop})
	eventually(t, "lnetd is woken", func() bool { return w.total("old").BellReads > 0 })
	_ = first.conn.Close()
	w.empty()
	if s := w.total("old"); s.Waits == 0 || s.BellReads == 0 {
		t.Errorf("%+v", s)
	}
	last := w.join()
	if err := w.server.SetRules(rule("new")); err != nil {
		t.Fatal(err)
	}
	if got := rules(); !slices.Equal(got, []string{"", "new", "old"}) {
		t.Errorf("with a client of the old rule: %q", got)
	}
	fresh := w.join()
	_ = last.conn.Close()
	eventually(t, "one is left", func() bool { return len(w.server.Clients()) == 1 })
	if got := rules(); !slices.Equal(got, []string{"", "new"}) {
		t.Errorf("with a client of the new rule: %q", got)
	}
	_ = fresh.conn.Close()
	w.empty()
	if got := rules(); !slices.Equal(got, []string{"", "new"}) {
		t.Errorf("without clients: %q", got)
	}
	if err := w.server.SetRules(rule("next")); err != nil {
		t.Fatal(err)
	}
	if got := rules(); !slices.Equal(got, []string{"", "next"}) {
		t.Errorf("of a rule that is no more: %q", got)
	}
}
