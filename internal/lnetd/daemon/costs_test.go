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

// listCosts stores in best the processor time that this process needs for documents about n peers, and for the lists
// of a node with as many, by what is done. It keeps smaller values.
func listCosts(t *testing.T, n int, best map[string]time.Duration) {
	t.Helper()
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
		took := processorTime(t) - before
		if was, ok := best[step.what]; !ok || took < was {
			best[step.what] = took
		}
	}
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
// doublings are compared, because a single one is less than what other processes make the time vary. The best of
// several tries counts. Garbage is collected only between tries, because a collection costs as much as the whole heap.
func TestListsCostInProportion(t *testing.T) {
	const tries, most, slack = 6, 2.3 * 2.3 * 2.3, 3 * time.Millisecond
	n := testenv.Fewer(500)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	few, many := map[string]time.Duration{}, map[string]time.Duration{}
	var excess []string
	for range tries {
		listCosts(t, n, few)
		listCosts(t, 8*n, many)
		excess = nil
		for what, cost := range many {
			if float64(cost) > most*float64(few[what])+float64(slack) {
				excess = append(excess, fmt.Sprintf("%s: %v for %d peers, %v for %d", what, few[what], n, cost, 8*n))
			}
		}
		if len(excess) == 0 {
			break
		}
	}
	t.Log(few, many)
	if len(excess) > 0 {
		t.Errorf("%q", excess)
	}
}
