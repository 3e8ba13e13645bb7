package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
)

func TestUDSP(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	zero, one, five := 0, 1, uint32(5)
	add := func(r api.UDSPRule) error { return c.AddUDSP(t.Context(), r) }
	for _, r := range []api.UDSPRule{
		{Src: pattern("tcp")},
		{Dst: pattern("*@tcp"), Priority: &five},
		{Index: &zero, Src: pattern("10.0.0.1@tcp"), Dst: pattern("tcp[1-3]")},
	} {
		if err := add(r); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := c.UDSP(t.Context(), "")
	if err != nil || len(rules) != 3 {
		t.Fatal(err, rules)
	}
	got, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"idx":0,"src":"10.0.0.1@tcp","dst":"tcp[1-3]"},{"idx":1,"src":"tcp","priority":0},` +
		`{"idx":2,"dst":"[0-255].[0-255].[0-255].[0-255]@tcp","priority":5}]`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if rules, err := c.UDSP(t.Context(), "1"); err != nil || len(rules) != 1 || *rules[0].Index != 1 {
		t.Error(err, rules)
	}
	if rules, err := c.UDSP(t.Context(), "7"); err != nil || len(rules) != 0 {
		t.Error(err, rules)
	}

	negative := -1
	for _, tt := range []struct {
		name string
		r    api.UDSPRule
		code api.Code
		no   syscall.Errno
		text string
	}{
		{"again", api.UDSPRule{Src: pattern("tcp")}, api.CodeRuleExists, syscall.EALREADY, "cannot add udsp: Operation already in progress"},
		{"all three", api.UDSPRule{Src: pattern("tcp"), Dst: pattern("tcp"), Rte: pattern("tcp")}, api.CodeRuleInvalid, syscall.EINVAL, "The combination of src, dst and rte is not supported"},
		{"src and rte", api.UDSPRule{Src: pattern("tcp"), Rte: pattern("tcp")}, api.CodeRuleInvalid, syscall.EINVAL, "src and rte cannot be combined"},
		{"rte", api.UDSPRule{Rte: pattern("tcp")}, api.CodeRuleInvalid, syscall.EINVAL, "src or dst is needed"},
		{"nothing", api.UDSPRule{}, api.CodeRuleInvalid, syscall.EINVAL, "src or dst is needed"},
		{"pair with priority", api.UDSPRule{Src: pattern("tcp"), Dst: pattern("tcp"), Priority: &five}, api.CodeRuleInvalid, syscall.EINVAL, "a rule with preferred NIDs cannot have a priority"},
		{"place", api.UDSPRule{Src: pattern("tcp7"), Index: &negative}, api.CodeRuleInvalid, syscall.EINVAL, "Invalid index"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantFault(t, add(tt.r), tt.code, tt.no, tt.text) })
	}

	if err := c.DeleteUDSP(t.Context(), api.UDSPDeletion{Index: &one}); err != nil {
		t.Error(err)
	}
	if got := d.Rules(); len(got) != 2 || got[1].Dst.IsZero() {
		t.Errorf("left: %v", got)
	}
	five2 := 5
	err = c.DeleteUDSP(t.Context(), api.UDSPDeletion{Index: &five2})
	wantFault(t, err, api.CodeRuleUnknown, syscall.ENOENT, "cannot del udsp: No such file or directory")
	for _, r := range []api.UDSPDeletion{{}, {Index: &one, All: true}} {
		wantFault(t, c.DeleteUDSP(t.Context(), r), api.CodeRequestInvalid, syscall.EINVAL, "either idx or all is needed")
	}
	if err := c.DeleteUDSP(t.Context(), api.UDSPDeletion{All: true}); err != nil || len(d.Rules()) != 0 {
		t.Error(err, d.Rules())
	}
}

func TestSelection(t *testing.T) {
	d := &controltest.Daemon{}
	c, _ := serve(t, d)
	seven := 7
	for _, r := range []api.SelectionRule{
		{Type: "net", Net: pattern("tcp"), Priority: 2},
		{Type: "nid", NID: pattern("10.0.0.[1-4]@tcp"), ID: &seven},
		{Type: "peer", Local: pattern("10.0.0.1@tcp"), Remote: pattern("10.0.0.9@tcp"), Priority: 1},
	} {
		if err := c.AddSelection(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := c.Selection(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(rules)
	want := `[{"id":0,"type":"net","net":"tcp","priority":2},{"id":7,"type":"nid","nid":"10.0.0.[1-4]@tcp","priority":0},` +
		`{"id":8,"type":"peer","local":"10.0.0.1@tcp","remote":"10.0.0.9@tcp","priority":1}]`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if rules, err := c.Selection(t.Context(), "peer", "8"); err != nil || len(rules) != 1 {
		t.Error(err, rules)
	}
	if rules, err := c.Selection(t.Context(), "net", "8"); err != nil || len(rules) != 0 {
		t.Error(err, rules)
	}
	_, err = c.Selection(t.Context(), "frob", "")
	wantFault(t, err, api.CodeRequestInvalid, syscall.EINVAL, `type "frob" of a selection rule is not net, nid or peer`)

	err = c.AddSelection(t.Context(), api.SelectionRule{Type: "net", Net: pattern("tcp"), Priority: 3})
	wantFault(t, err, api.CodeRuleExists, syscall.EALREADY, "cannot add selection rule: Operation already in progress")
	err = c.AddSelection(t.Context(), api.SelectionRule{Type: "nid", NID: pattern("tcp")})
	wantFault(t, err, api.CodeRuleInvalid, syscall.EINVAL, "cannot add selection rule: Invalid argument")
	err = c.AddSelection(t.Context(), api.SelectionRule{Type: "net", NID: pattern("10.0.0.1@tcp")})
	wantFault(t, err, api.CodeRequestInvalid, syscall.EINVAL, "a net rule cannot have this pattern: 10.0.0.1@tcp")

	// ID and pattern must belong to the same rule.
	err = c.DeleteSelection(t.Context(), api.SelectionRule{Type: "net", ID: &seven, Net: pattern("tcp")})
	wantFault(t, err, api.CodeRuleUnknown, syscall.ENOENT, "cannot del selection rule: No such file or directory")
	err = c.DeleteSelection(t.Context(), api.SelectionRule{Type: "net"})
	wantFault(t, err, api.CodeRuleInvalid, syscall.EINVAL, "cannot del selection rule: Invalid argument")
	if err := c.DeleteSelection(t.Context(), api.SelectionRule{Type: "nid", ID: &seven}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteSelection(t.Context(), api.SelectionRule{Type: "net", Net: pattern("tcp")}); err != nil {
		t.Error(err)
	}
	if left := d.TypedRules(); len(left) != 1 || left[0].ID != 8 {
		t.Errorf("left: %v", left)
	}
}

func TestExplain(t *testing.T) {
	var asked string
	d := &controltest.Daemon{ExplainFunc: func(to, source lnet.NID, portal uint32) selection.Explanation {
		asked = fmt.Sprint(to, " from ", source, " portal ", portal)
		return selection.Explanation{
			Case: "some case",
			Steps: []selection.Step{
				{What: "NI", Candidates: []selection.Candidate{
					{Name: "a", Figures: []selection.Figure{{Criterion: selection.ByFatal, Value: 0}}},
					{Name: "b", By: selection.ByFatal, Figures: []selection.Figure{{Criterion: selection.ByFatal, Value: 1}}},
				}, Excluded: []selection.Exclusion{{Name: "c", Why: "not there"}}},
				{What: "remark"},
			},
			Err: fmt.Errorf("no route: %w", selection.ErrUnreachable),
		}
	}}
	c, _ := serve(t, d)
	got, err := c.Explain(t.Context(), "10.0.0.9@tcp", "10.0.0.1@tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	want := api.Explanation{
		To: nid("10.0.0.9@tcp"), Source: nid("10.0.0.1@tcp"), Case: "some case",
		Steps: []api.ExplainedStep{
			{What: "NI", Candidates: []api.RankedCandidate{
				{Name: "a", Figures: []api.Figure{{Criterion: "link", Value: 0, Text: "up"}}},
				{Name: "b", By: "link", Figures: []api.Figure{{Criterion: "link", Value: 1, Text: "down"}}},
			}, Excluded: []api.ExcludedCandidate{{Name: "c", Why: "not there"}}},
			{What: "remark"},
		},
		Error: "no route: unreachable",
	}
	if diff := cmp.Diff(want, got, sameNID); diff != "" {
		t.Error(diff)
	}
	if asked != "10.0.0.9@tcp from 10.0.0.1@tcp portal 1" {
		t.Error(asked)
	}
	if _, err := c.Explain(t.Context(), "0@lo", "", "0"); err != nil || !strings.HasSuffix(asked, "portal 0") {
		t.Error(err, asked)
	}
	for _, q := range [][3]string{{"", "", ""}, {"x@", "", ""}, {"0@lo", "x@", ""}, {"0@lo", "", "64"}, {"0@lo", "", "x"}} {
		if _, err := c.Explain(t.Context(), q[0], q[1], q[2]); api.FaultOf(err).Code != api.CodeRequestInvalid {
			t.Errorf("%q: %v", q, err)
		}
	}
}
