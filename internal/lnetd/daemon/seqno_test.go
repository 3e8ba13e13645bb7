package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Errors about a block of a document have the block's sequence number, whether the document is
// invalid, conflicts with the node, or fails.
//
// lnetctl 11 (13)
func TestSeqNosAreEchoed(t *testing.T) {
	r := startNode(t, parse(t, twoNets)).ready(t)
	numbersOf := func(err error) (numbers []int64) {
		t.Helper()
		f, ok := errors.AsType[*api.Fault](err)
		if !ok {
			t.Fatal(err)
		}
		if f.SeqNo != nil {
			numbers = append(numbers, *f.SeqNo)
		}
		for _, p := range f.Problems {
			if p.SeqNo != nil {
				numbers = append(numbers, *p.SeqNo)
			}
		}
		return numbers
	}
	for _, tt := range []struct {
		what, text string
		mode       api.Mode
	}{
		{"a value", "global: {retry_count: 1}\nroute: [{net: tcp9, gateway: 10.77.0.9@tcp, hop: 999, seq_no: 7}]\n", api.ModeAdd},
		{"an interface", "net:\n  - {net: tcp5, interfaces: [eth0], seq_no: 6}\n  - {net: tcp6, interfaces: [eth9], tunables: {seq_no: 7}}\n", api.ModeAdd},
		{"an interface of apply", "net:\n  - {net: tcp6, interfaces: [eth9], seq_no: 7}\n", api.ModeReplace},
		{"twice", "net:\n  - {net: tcp5, interfaces: [eth0]}\n  - {net: tcp5, nid: 10.77.0.11@tcp5, seq_no: 7}\n", api.ModeAdd},
		{"a rule", "ip2nets:\n  - {net-spec: tcp5, ip-range: [10.9.*.*], seq_no: 7}\n", api.ModeAdd},
		{"a deletion", "peers: [{nids: {0: none}, seq_no: 7}]\n", api.ModeDelete},
	} {
		_, err := r.document(t, tt.mode, tt.text)
		if got := numbersOf(err); len(got) != 1 || got[0] != 7 {
			t.Errorf("%s: numbers %v of %v", tt.what, got, err)
		}
	}
	_, _, err := r.Described(t.Context(), api.Document{Name: "t.yaml", Text: "net: [{net: none, seq_no: 7}]"})
	if got := numbersOf(err); len(got) != 1 || got[0] != 7 {
		t.Errorf("--show: numbers %v of %v", got, err)
	}
	_, err = r.Errands(t.Context(), api.Document{Name: "t.yaml", Text: "ping: {nids: [], seq_no: 7}"})
	if got := numbersOf(err); len(got) != 1 || got[0] != 7 {
		t.Errorf("--exec: numbers %v of %v", got, err)
	}
}

// The description of a document has the requested levels of detail under the names of the items.
//
// lnetctl 7 (5)
func TestDetailsAreKept(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"peer: [{primary nid: 10.77.0.2@tcp, peer ni: [{nid: 10.78.0.2@tcp1}]}]\n")).ready(t)
	for text, want := range map[string]map[string]int64{
		"net: [{net: tcp, detail: 1}, {net: tcp7, detail: 2}]": {"tcp": 1},
		"net: [{net: tcp}]":                                       nil,
		"peers: [{nids: [10.78.0.2@tcp1], detail: 0}]":            {"10.77.0.2@tcp": 0},
		"route: [{net: tcp9, gateway: 10.77.0.9@tcp, detail: 1}]": {"route": 1},
	} {
		found, _, err := r.Described(t.Context(), api.Document{Name: "t.yaml", Text: text})
		if diff := cmp.Diff(want, found.Details); diff != "" || err != nil {
			t.Errorf("%s: %v, %s", text, err, diff)
		}
	}
}

// The description of a document has the "selection" rules that the document names, and a warning for an
// entry that has no effect.
func TestDescribedRulesAndWarnings(t *testing.T) {
	r := startNode(t, parse(t, twoNets+"selection: [{id: 4, type: net, net: tcp*, priority: 0}, {id: 5, type: net, net: tcp1, priority: 1}]\n")).ready(t)
	found, _, err := r.Described(t.Context(), api.Document{Name: "t.yaml", Text: "selection: [{id: 4}]\nnet: [{net: tcp, detail: yes}]\n"})
	if err != nil || len(found.Selection) != 1 || *found.Selection[0].ID != 4 {
		t.Errorf("%+v, %v", found.Selection, err)
	}
	if len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0].Error(), "detail") {
		t.Errorf("warnings %+v", found.Warnings)
	}
}
