package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// Without lnetd, the findings say so; the exit status is that of errors. As JSON, the findings are a list.
func TestDoctorWithoutDaemon(t *testing.T) {
	socket := t.TempDir() + "/none"
	got := runProgram(program{}, "doctor", "--control-socket", socket)
	for _, want := range []string{
		"error LNET101 lnetd is not running: lnetd\n", "  evidence: cannot reach lnetd at " + socket, "\n  remedy:   start lnetd",
		"\n  page:     https://github.com/lnetd/lnetd/blob/main/docs/findings.md#lnet101\n",
		"not examined: NIs, peers, routes and programs: lnetd does not answer\n",
	} {
		if got.status != 2 || !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %+v", want, got)
		}
	}
	got = runProgram(program{}, "doctor", "--json", "--control-socket", socket)
	if got.status != 2 || !strings.HasPrefix(got.stdout, "{\n  \"findings\": [\n    {\n      \"code\": \"LNET101\",\n      \"severity\": \"error\",") {
		t.Errorf("%+v", got)
	}
}

// With --watch, only findings that begin or end are printed.
func TestDoctorWatch(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := []diagnosis.Finding{{Code: "LNET203", Severity: "error", Title: "no carrier", Subject: "eth0", Evidence: "e", Remedy: "r", Page: "p"}}
	var got strings.Builder
	got.WriteString(changesText(at, nil, nil, true))
	got.WriteString(changesText(at, nil, one, false))
	got.WriteString(changesText(at, one, one, false))
	got.WriteString(changesText(at, one, nil, false))
	got.WriteString(changesText(at, nil, nil, false))
	want := `03:04:05 no findings
03:04:05 found:
error LNET203 no carrier: eth0
  evidence: e
  remedy:   r
  page:     p
03:04:05 ended: LNET203 no carrier: eth0
03:04:05 no findings
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	rounds := 0
	p := program{pause: func(context.Context, time.Duration) error {
		if rounds++; rounds == 2 {
			return errors.New("enough")
		}
		return nil
	}}
	ran := runProgram(p, "doctor", "--watch", "--json", "--control-socket", t.TempDir()+"/none")
	if n := strings.Count(ran.stdout, "\n"); n != 2 || strings.Count(ran.stdout, `"code":"LNET101"`) != 2 {
		t.Errorf("%+v", ran)
	}
}

// The exit status is that of the worst finding.
func TestDoctorStatus(t *testing.T) {
	for severity, want := range map[diagnosis.Severity]error{diagnosis.Error: exitErrors, diagnosis.Warning: exitWarnings, diagnosis.Notice: nil} {
		if got := severityStatus([]diagnosis.Finding{{Severity: severity}, {Severity: diagnosis.Notice}}); !errors.Is(got, want) {
			t.Errorf("%s: %v", severity, got)
		}
	}
}
