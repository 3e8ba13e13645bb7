package config

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// A peer that occurs twice in a document is deleted once. NIDs of a peer are deleted
// individually.
func TestDeletePeers(t *testing.T) {
	c, err := Parse("f", []byte(peersOf("1", "2", "3", "4")), testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ParseDeletion(t.Context(), "d", []byte(`
peer:
  - primary nid: 10.0.0.2@tcp
  - primary nid: 10.0.0.2@tcp
  - primary nid: 10.0.0.9@tcp
  - primary nid: 10.0.0.3@tcp
    peer ni: [{nid: 10.0.1.3@tcp}, {nid: 10.0.1.4@tcp}]
`), testDrivers)
	if err != nil {
		t.Fatal(err)
	}
	want, warnings, err := Delete(&c.State, &d)
	if err != nil {
		t.Fatal(err)
	}
	var left, said []string
	for _, p := range want.Peers {
		left = append(left, fmt.Sprint(p.Primary, p.Others))
	}
	for _, w := range warnings {
		said = append(said, w.Text)
	}
	if diff := cmp.Diff([]string{"10.0.0.1@tcp [10.0.1.1@tcp]", "10.0.0.3@tcp []", "10.0.0.4@tcp [10.0.1.4@tcp]"}, left); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"peer 10.0.0.2@tcp does not exist; nothing is deleted", "peer 10.0.0.3@tcp does not have the NID 10.0.1.4@tcp; nothing is deleted",
		"peer 10.0.0.9@tcp does not exist; nothing is deleted",
	}, said, cmp.Transformer("sorted", func(s []string) map[string]bool {
		m := map[string]bool{}
		for _, one := range s {
			m[one] = true
		}
		return m
	})); diff != "" {
		t.Error(diff)
	}
}

func peersOf(hosts ...string) string {
	var b strings.Builder
	b.WriteString("peer:\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "  - primary nid: 10.0.0.%s@tcp\n    peer ni: [{nid: 10.0.0.%s@tcp}, {nid: 10.0.1.%s@tcp}]\n", h, h, h)
	}
	return b.String()
}

// The entries that delete gateways are found without comparing each peer with all entries, so twice as many
// cost twice as much.
func TestDeletionOfManyGateways(t *testing.T) {
	var allocated []uint64
	n := testenv.Fewer(2_000)
	for _, count := range []int{n, 2 * n} {
		var have State
		d := Deletion{name: "f"}
		for k := range count {
			nid, err := lnet.ParseNID(fmt.Sprintf("10.1.%d.%d@tcp", k/250, 1+k%250))
			if err != nil {
				t.Fatal(err)
			}
			have.Peers = append(have.Peers, Peer{Primary: nid})
			have.Routes = append(have.Routes, Route{Net: netOf(t, "tcp1"), Gateway: nid})
			d.Peers = append(d.Peers, Peer{Primary: nid, Where: fmt.Sprintf("f:%d: peer[%d]", 1+k, k)})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := Delete(&have, &d)
		runtime.ReadMemStats(&after)
		var problems Problems
		if !errors.As(err, &problems) || problems[1].Line != 2 || !strings.Contains(problems[1].Text, "routes use the peer 10.1.0.2@tcp") {
			t.Fatalf("%.300v", err)
		}
		allocated = append(allocated, after.TotalAlloc-before.TotalAlloc)
	}
	if 10*allocated[1] > 23*allocated[0] {
		t.Errorf("%d bytes are allocated for %d gateways, and %d for twice as many", allocated[0], n, allocated[1])
	}
}
