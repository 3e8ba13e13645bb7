package prometheus

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Words of a PromQL expression that are not names of metrics.
var (
	literals  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	selectors = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]`)
	groupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	words     = regexp.MustCompile(`[a-zA-Z_:$][a-zA-Z0-9_:]*\s*\(?`)
	numbers   = regexp.MustCompile(`\b[0-9][0-9a-z.]*`)
	operators = []string{"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "inf", "nan"}
)

// metricsIn returns the names of metrics in a PromQL expression.
func metricsIn(expr string) (names []string) {
	for _, r := range []*regexp.Regexp{literals, selectors, groupings, numbers} {
		expr = r.ReplaceAllString(expr, " ")
	}
	for _, w := range words.FindAllString(expr, -1) {
		name := strings.TrimSpace(w)
		if !strings.HasSuffix(name, "(") && !slices.Contains(operators, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	return names
}

func TestMetricsIn(t *testing.T) {
	for expr, want := range map[string][]string{
		`up{job="lnetd"} == 0`: {"up"},
		`sum without (reason) (rate(lnet_a_total{reason!~"x|y", b="{"}[5m])) > 0.5e3`:     {"lnet_a_total"},
		`max_over_time(a:b:c[5m] offset 1h) / on (x) group_left (y) d and e or vector(0)`: {"a:b:c", "d", "e"},
		`histogram_quantile(0.99, sum by (le) (rate(lnet_l_bucket[$__rate_interval])))`:   {"lnet_l_bucket"},
		`absent(up)`: {"up"},
		`a
		  / sum(b) by (c)`: {"a", "b"},
	} {
		if diff := cmp.Diff(want, metricsIn(expr)); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

// others are metrics that are not from lnetd: those of Prometheus and of the client library.
var others = []string{
	"up", "ALERTS", "process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines",
}

// known reports whether a name is a metric of lnetd, or one that its rules record.
func known(t *testing.T) func(name string) bool {
	t.Helper()
	all := map[string]bool{}
	for _, name := range others {
		all[name] = true
	}
	for _, name := range regexp.MustCompile(`\blnetd?_[a-z0-9_]+`).FindAllString(read(t, in("docs", "metrics.md")), -1) {
		all[name] = true
	}
	for _, r := range rules(t, "lnetd.rules.yaml") {
		all[r.Record] = true
	}
	return func(name string) bool {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); base != name && all[base] {
				return true
			}
		}
		return all[name]
	}
}

// Every metric in rules, their tests, dashboards and the pages exists.
func TestMetricsAreKnown(t *testing.T) {
	isKnown := known(t)
	check := func(where, expr string) {
		t.Helper()
		for _, name := range metricsIn(expr) {
			if !isKnown(name) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
	for _, file := range ruleFiles {
		for _, r := range rules(t, file) {
			check(file, r.Expr)
		}
	}
	for _, e := range expressions(t) {
		check("dashboard", e)
	}
	var f struct {
		Tests []struct {
			Input []struct{ Series string } `yaml:"input_series"`
		}
	}
	decode(t, in("deploy", "prometheus", "tests", "alerts.yaml"), &f)
	for _, one := range f.Tests {
		for _, s := range one.Input {
			check("tests/alerts.yaml", s.Series)
		}
	}
	inPages := regexp.MustCompile(`\blnetd?_[a-z0-9_]+`)
	for _, page := range pages(t) {
		for _, name := range inPages.FindAllString(read(t, in("docs", "alerts", page+".md")), -1) {
			check(page+".md", name)
		}
	}
}
