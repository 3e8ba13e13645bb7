package prometheus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// repository is the root of the repository.
var repository = filepath.Join("..", "..")

// in returns a path within the repository.
func in(path ...string) string { return filepath.Join(append([]string{repository}, path...)...) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ruleFiles are the shipped files of rules.
var ruleFiles = []string{"lnetd.rules.yaml", "lnetd.alerts.yaml"}

// rule is a recording or alerting rule.
type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

// rules returns the rules of a file.
func rules(t *testing.T, name string) (list []rule) {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	decode(t, in("deploy", "prometheus", name), &f)
	for _, g := range f.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no rules", name)
	}
	return list
}

// alerts returns the shipped alerts.
func alerts(t *testing.T) []rule { t.Helper(); return rules(t, "lnetd.alerts.yaml") }

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// pages returns the names of the pages on alerts.
func pages(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(in("docs", "alerts"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	return names
}
