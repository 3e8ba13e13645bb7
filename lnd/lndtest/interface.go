package lndtest

import (
	"regexp"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd"
)

// Interface: the properties that an interface reports.
var interfaceCases = []scenario{
	{name: "Constants", nodes: 1, run: constants},
	{name: "Counters", nodes: 2, run: counters},
	{name: "Link", nodes: 2, needs: func(w *World) bool { return w.SetLink != nil }, run: link},
	{name: "OpenAndClose", nodes: 2, run: openAndClose},
	{name: "Tune", nodes: 2, run: tune},
}

func constants(s *stage) {
	n := s.open(1)
	i := n[0].i
	large, t := i.LargeNIDs(), i.Tunables()
	if i.Timeout() <= 0 {
		s.t.Errorf("timeout %v", i.Timeout())
	}
	if t.PeerCredits < 1 || t.Credits < t.PeerCredits || t.PeerTimeout < 0 || t.PeerBufferCredits < 0 {
		s.t.Errorf("tunables %+v", t)
	}
	if got := i.Link(); got != lnd.LinkUp {
		s.t.Errorf("link %s", got)
	}
	if i.LargeNIDs() != large || i.Tunables() != t || i.NID() != n[0].id.NID {
		s.t.Error("a constant has changed")
	}
}

// tune calls Tune with the options in force, which must succeed, and with invalid options, which must fail.
// Neither may change the options.
func tune(s *stage) {
	n := s.open(2)
	t, ok := n[0].i.(lnd.Tuner)
	if !ok {
		return
	}
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	before := n[0].i.Options()
	if err := t.Tune(before); err != nil {
		s.t.Errorf("Tune with the options in force: %v", err)
	}
	if err := t.Tune(lnd.Values{"no such tunable": 1}); err == nil {
		s.t.Error("Tune took an unknown tunable")
	}
	if diff := cmp.Diff(before, n[0].i.Options()); diff != "" {
		s.t.Errorf("options (-before +after):\n%s", diff)
	}
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	s.awaitWorking(n[0], n[1])
}

var counterName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func counters(s *stage) {
	n := s.open(2)
	names := func() (list []string, values map[string]uint64) {
		values = make(map[string]uint64)
		for _, c := range n[0].i.Counters() {
			if _, twice := values[c.Name]; twice || !counterName.MatchString(c.Name) {
				s.t.Errorf("counter %q: not lower_case, or there are two", c.Name)
			}
			list = append(list, c.Name)
			values[c.Name] = c.Value
		}
		return list, values
	}
	before, values := names()
	for range 3 {
		s.awaitDelivered(n[1], n[0].puts(n[1], 10, 3000)...)
		after, now := names()
		if diff := cmp.Diff(before, after); diff != "" {
			s.t.Errorf("names of counters changed (-before +after):\n%s", diff)
		}
		for name, v := range now {
			if isTotal.MatchString(name) && v < values[name] {
				s.t.Errorf("counter %s fell from %d to %d", name, values[name], v)
			}
		}
		values = now
		n[0].i.Disconnect(n[1].id.NID)
		s.awaitWorking(n[0], n[1])
	}
}

var isTotal = regexp.MustCompile(`_total$`)

// link takes a device down and up. The node must be notified of each change, and connections must stay open.
func link(s *stage) {
	n := s.open(2)
	s.awaitDelivered(n[1], n[0].put(n[1], 10))
	for _, want := range []lnd.LinkState{lnd.LinkDown, lnd.LinkUp} {
		s.w.SetLink(0, want == lnd.LinkUp)
		s.await("the change of the link", func() bool {
			return len(n[0].links) > 0 && n[0].links[len(n[0].links)-1] == want
		})
		if got := n[0].i.Link(); got != want {
			s.t.Errorf("link %s, want %s", got, want)
		}
	}
	s.mu.Lock()
	if got := n[0].links; len(got) != 2 {
		s.t.Errorf("told of %v, want each change once", got)
	}
	if len(n[1].links) != 0 {
		s.t.Errorf("the other node was told of %v", n[1].links)
	}
	s.mu.Unlock()
	s.awaitWorking(n[0], n[1])
}

// openAndClose opens and closes interfaces, with and without traffic.
func openAndClose(s *stage) {
	for round := range 10 {
		n := s.open(2)
		if round%2 == 0 {
			s.awaitWorking(n[0], n[1])
		}
		n[round/2%2].close()
		n[1-round/2%2].close()
	}
}
