package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// promtool runs it in deploy/prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	testenv.NeedCommand(t, "promtool", "prometheus")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = in("deploy", "prometheus")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// promtool accepts the rules, their tests and the example configuration.
func TestPromtool(t *testing.T) {
	promtool(t, append([]string{"check", "rules"}, ruleFiles...)...)
	promtool(t, "check", "config", "prometheus.yml")
	promtool(t, "test", "rules", filepath.Join("tests", "alerts.yaml"))
}

// Every alert has a test in which it is inactive, fires, and is inactive again. An alert with a
// waiting time is first inactive although its condition is true.
func TestEveryAlertIsTested(t *testing.T) {
	var f struct {
		Tests []struct {
			Checks []struct {
				Name   string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	decode(t, in("deploy", "prometheus", "tests", "alerts.yaml"), &f)
	fires := map[string][]bool{}
	for _, one := range f.Tests {
		for _, c := range one.Checks {
			fires[c.Name] = append(fires[c.Name], len(c.Alerts) > 0)
		}
	}
	for _, a := range alerts(t) {
		if diff := cmp.Diff([]bool{false, true, false}, slices.Compact(fires[a.Alert])); diff != "" {
			t.Errorf("%s: whether it fires: %s", a.Alert, diff)
		}
	}
}

// Every alert has a page, and every page its alert. A page contains the meaning of the alert, what
// to look at and what to do.
func TestEveryAlertHasAPage(t *testing.T) {
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
		if a.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s lacks a summary, or its severity is none: %+v", a.Alert, a)
		}
	}
	slices.Sort(names)
	there := pages(t)
	slices.Sort(there)
	if diff := cmp.Diff(names, there); diff != "" {
		t.Fatalf("alerts, and pages: %s", diff)
	}
	byName := map[string]rule{}
	for _, a := range alerts(t) {
		byName[a.Alert] = a
	}
	for _, name := range there {
		text := read(t, in("docs", "alerts", name+".md"))
		for _, part := range []string{"# " + name + "\n", "`" + byName[name].Labels["severity"] + "`, ", "\n## Look at\n", "\n    lnetdctl ", "\n## Do\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s.md has no %q", name, part)
			}
		}
		if wait := byName[name].For; wait != "" && !strings.Contains(text, "`, after "+wait+". ") {
			t.Errorf("%s.md does not say that the alert waits for %s", name, wait)
		}
	}
}

// failed returns the names of failed tests in the output of promtool.
var failed = regexp.MustCompile(`(?m)^ +name: (\w+),$`)

// If the waiting times of alerts are removed, the tests of alerts with a waiting time fail, so the
// tests check the waiting times.
func TestTestsHoldHowLongAlertsWait(t *testing.T) {
	testenv.NeedCommand(t, "promtool", "prometheus")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tests"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(slices.Clone(ruleFiles), filepath.Join("tests", "alerts.yaml")) {
		text := waits.ReplaceAllString(read(t, in("deploy", "prometheus", name)), "${1}0s")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", filepath.Join(dir, "tests", "alerts.yaml")).CombinedOutput()
	if err == nil {
		t.Fatal("no test fails")
	}
	var want, got []string
	for _, m := range failed.FindAllStringSubmatch(string(out), -1) {
		got = append(got, m[1])
	}
	for _, a := range alerts(t) {
		if a.For != "" {
			want = append(want, a.Alert)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("alerts that wait, and tests that fail: %s\n%s", diff, out)
	}
}
