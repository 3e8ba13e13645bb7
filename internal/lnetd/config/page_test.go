package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/lnetd/drivers"
	"github.com/lnetd/lnetd/lnd"
)

// The examples on the page about configuration are valid.
func TestPage(t *testing.T) {
	for k, e := range examplesOfPage(t) {
		c, err := config.Parse("example", e, daemon.AllDrivers().Options())
		if err != nil {
			t.Errorf("example %d: %v", k, err)
		}
		for _, w := range c.Warnings {
			t.Errorf("example %d: %s", k, w)
		}
	}
}

func examplesOfPage(t *testing.T) (texts [][]byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		texts = append(texts, e[1])
	}
	if len(texts) < 4 {
		t.Errorf("%d examples", len(texts))
	}
	return texts
}

// TestTunablesOfPage checks the table of tunables on the page. With -update it writes the table.
func TestTunablesOfPage(t *testing.T) {
	const begin, end = "<!-- tunables: written by make tunables -->\n", "<!-- end of tunables -->"
	path := filepath.Join("..", "..", "..", "docs", "configuration.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("the page has no place for the table")
	}
	want := before + begin + tableOfTunables(drivers.Tables()) + end + after
	switch {
	case want == string(page):
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/configuration.md is stale, make tunables writes it (-is +shall be):\n%s", cmp.Diff(string(page), want))
	}
}

func tableOfTunables(tables []lnd.Table) string {
	var b strings.Builder
	b.WriteString("| tunable | nets | values | default | while up | meaning |\n|---|---|---|---|---|---|\n")
	for k := range tables {
		for _, o := range tables[k].Tunables {
			if o.Name == "" {
				continue
			}
			values := fmt.Sprintf("%d to %d", o.Min, o.Max)
			if o.Kind == lnd.Bool {
				values = "0 or 1"
			} else if !o.Unit.IsZero() {
				values += " " + o.Unit.Name
			}
			live := "no"
			if o.Live {
				live = "yes"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s | %s |\n", o.Name, tables[k].Type, values, o.Default, live, o.Help)
		}
	}
	return b.String()
}
