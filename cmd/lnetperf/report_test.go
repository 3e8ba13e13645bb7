package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// report runs "lnetperf report" in this process.
func report(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &program{stdout: &out, stderr: &errs}
	status = p.run(append([]string{"report"}, args...))
	return status, out.String(), errs.String()
}

// Each file becomes two pictures, which are those in docs/performance.
func TestReport(t *testing.T) {
	const results = "../../docs/performance/"
	dir := t.TempDir()
	status, out, errs := report("-o", dir, results+"compare.json", results+"hosted.json")
	if status != exitOK || errs != "" {
		t.Fatalf("it ends with %d and says %s", status, errs)
	}
	names := strings.Fields(out)
	if len(names) != 4 {
		t.Fatalf("it prints\n%s", out)
	}
	for _, name := range names {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(results + filepath.Base(name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from that in docs/performance (%v)", name, err)
		}
	}
	if _, out, _ := report("--json", "-o", dir, results+"hosted.json"); !strings.Contains(out, `"pictures": [`) {
		t.Errorf("it prints\n%s", out)
	}
}

// With --markdown the tables are those of the page.
func TestReportTables(t *testing.T) {
	const results = "../../docs/performance/"
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs := report("--markdown", results+"compare.json", results+"hosted.json")
	tables := strings.Split(out, "\n\n")
	if status != exitOK || errs != "" || len(tables) != 2 {
		t.Fatalf("it ends with %d, says %s and prints\n%s", status, errs, out)
	}
	for _, table := range tables {
		if !strings.Contains(string(page), table) {
			t.Errorf("docs/performance.md has another table than\n%s", table)
		}
	}
}

// Files that cannot be used are named.
func TestReportFails(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.json")
	if err := os.WriteFile(other, []byte(`{"cases": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, exitUsage, "no file"},
		{[]string{"--markdown", "-o", dir, other}, exitUsage, "excludes --output"},
		{[]string{"--markdown", "--json", other}, exitUsage, "excludes --output and --json"},
		{[]string{filepath.Join(dir, "none.json")}, exitFailure, "none.json: no such file"},
		{[]string{"--markdown", other}, exitFailure, "other.json: results of lnetperf compare --json: there are no cases"},
		{[]string{other}, exitFailure, "other.json: results of lnetperf compare --json: there are no cases"},
		{[]string{"-o", filepath.Join(dir, "none"), "../../docs/performance/hosted.json"}, exitFailure, "hosted.svg: no such file"},
	} {
		if status, _, errs := report(x.args...); status != x.status || !strings.Contains(errs, x.says) {
			t.Errorf("%v: it ends with %d and says %s", x.args, status, errs)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
