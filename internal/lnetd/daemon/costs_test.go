package daemon

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// crowd returns a document with n peers of two NIDs each, and a tenth as many routes, each through another of
// the peers.
func crowd(n int) string {
	var b strings.Builder
	b.WriteString("peer:\n")
	for k := range n {
		fmt.Fprintf(&b, "- primary nid: 10.1.%d.%d@tcp\n  Multi-Rail: true\n  peer ni:\n  - nid: 10.1.%[1]d.%[2]d@tcp\n  - nid: 10.2.%[1]d.%[2]d@tcp1\n", k/250, k%250+1)
	}
	b.WriteString("route:\n")
	for k := range n / 10 {
		fmt.Fprintf(&b, "- net: tcp%d\n  gateway: 10.1.%d.%d@tcp\n", 10+k, k/250, k%250+1)
	}
	return b.String()
}

// listCosts returns the processor time that this process needs for documents about n peers, and for the lists of a node
// with as many, by what is done.
func listCosts(t *testing.T, n int) map[string]time.Duration {
	t.Helper()
	costs := map[string]time.Duration{}
	runtime.GC()
	r := startNode(t, parse(t, twoNets)).ready(t)
	text := crowd(n)
	change := func(mode api.Mode) {
		t.Helper()
		if _, err := r.document(t, mode, text); err != nil {
			t.Fatal(err)
		}
	}
	try := func(mode api.Mode, minimal bool) {
		t.Helper()
		c := api.ConfigurationChange{Document: api.Document{Name: "t.yaml", Text: text}, Mode: mode, Dry: true, Minimal: minimal}
		if _, err := r.ChangeConfiguration(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	peers := func(count int) {
		t.Helper()
		if count < n {
			t.Fatalf("%d peers", count)
		}
	}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"plan of an empty node", func() { try(api.ModeAdd, true) }},
		{"load", func() { change(api.ModeAdd) }},
		{"load again", func() { change(api.ModeAdd) }},
		{"diff", func() { try(api.ModeAdd, false) }},
		{"import --show", func() {
			_, nids, err := r.Described(t.Context(), api.Document{Name: "t.yaml", Text: text})
			if err != nil {
				t.Fatal(err)
			}
			peers(countPeers(t, r.PeersOf(t.Context(), nids)))
		}},
		{"export", func() {
			peers(countPeers(t, r.Peers(t.Context(), 0)))
		}},
		{"export --backup", func() { peers(len(r.configurationByAge(t).Peers)) }},
		{"route show", func() {
			for range 10 {
				if len(r.Routes()) != n/10 {
					t.Fatal("routes are missing")
				}
			}
		}},
		{"plan of the deletion", func() { try(api.ModeDelete, true) }},
		{"import --del", func() { change(api.ModeDelete) }},
	} {
		before := processorTime(t)
		step.do()
		costs[step.what] = processorTime(t) - before
	}
	return costs
}

func countPeers(t *testing.T, peers iter.Seq2[api.Peer, error]) (n int) {
	t.Helper()
	for _, err := range peers {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Twice as many peers and routes cost at most 2.3 times as much processor time, whatever is done with them. Three
// doublings are compared, because a single one is less than what other processes make the time vary. One of several
// tries has to show it for each of them: the two costs of a try were measured one after the other, so the machine was
// about as busy. Garbage is collected only between tries, because a collection costs as much as the whole heap.
func TestListsCostInProportion(t *testing.T) {
	const tries, most, slack = 6, 2.3 * 2.3 * 2.3, 3 * time.Millisecond
	n := testenv.Fewer(500)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	shown, excess := map[string]bool{}, []string{"not tried"}
	for k := 0; k < tries && len(excess) > 0; k++ {
		few, many := listCosts(t, n), listCosts(t, 8*n)
		t.Log(few, many)
		excess = nil
		for what, cost := range many {
			shown[what] = shown[what] || float64(cost) <= most*float64(few[what])+float64(slack)
			if !shown[what] {
				excess = append(excess, fmt.Sprintf("%s: %v for %d peers, %v for %d", what, few[what], n, cost, 8*n))
			}
		}
	}
	if len(excess) > 0 {
		t.Errorf("%q", excess)
	}
}
