package multitude_test

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/internal/load/scale"
	"github.com/lnetd/lnetd/internal/testing/multitude"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

var (
	sizes   = flag.String("sizes", "200,400", "numbers of clients, separated by commas, each greater than the one before")
	servers = flag.Int("servers", 1, "number of servers that share the clients, at most "+strconv.Itoa(multitude.MaxServers))
	figures = flag.String("figures", "", "a file that the figures are written to")
)

// growthMax is how much more twice as many nodes may cost.
const growthMax = 2.3

// run simulates n clients.
func run(t *testing.T, n int) (s *scale.Simulation) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if s, err = multitude.Run(n, *servers); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

// The messages, the memory and the allocated objects for each node do not grow with the number of nodes.
func TestCostsAreLinear(t *testing.T) {
	var all []*scale.Simulation
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && n <= all[len(all)-1].Nodes {
			t.Fatalf("-sizes %s: each must be greater than the one before", *sizes)
		}
		all = append(all, run(t, n))
		write(t, all) // after each, because the next one may take long
	}
	for k, s := range all[1:] {
		before := all[k]
		if !testenv.Race { // with it, what pools keep varies
			atMost(t, "bytes of a node", s.NodeBytes, before.NodeBytes)
			atMost(t, "bytes of a peer", s.PeerBytes, before.PeerBytes)
		}
		for j, e := range s.Events {
			if !testenv.Race {
				// Half an object is what the whole process may allocate besides. An event that takes longer,
				// because a server's interface is busy, includes more of what nodes do every second.
				longer := max(1, e.Quiet/before.Events[j].Quiet)
				atMost(t, e.Name+": allocated objects", e.Allocs, (before.Events[j].Allocs+0.5)*longer)
			}
			atMost(t, e.Name+": messages", e.Messages, before.Events[j].Messages)
			atMost(t, e.Name+": messages at servers and gateways", e.Busiest, before.Events[j].Busiest)
		}
	}
}

// write writes the figures to the file that -figures names.
func write(t *testing.T, all []*scale.Simulation) {
	t.Helper()
	if *figures == "" {
		return
	}
	b, err := json.MarshalIndent(all, "", "\t")
	if err == nil {
		err = os.WriteFile(*figures, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// atMost checks that a cost for each node has not grown more than growthMax permits for all nodes.
func atMost(t *testing.T, what string, got, before float64) {
	t.Helper()
	if most := before * growthMax / 2; got > most {
		t.Errorf("%s: %.3g with more nodes, %.3g before", what, got, before)
	}
}
