package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
