package conformance

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/conformance.md")

// module is the root directory of this module.
const module = "../.."

// scanned returns the rules and the tests of this module.
func scanned(t *testing.T) ([]Section, map[string][]Test) {
	t.Helper()
	m, err := scanOnce()
	if err != nil {
		t.Error(err)
	}
	return m.sections, m.shown
}

type scannedModule struct {
	sections []Section
	shown    map[string][]Test
}

// scanOnce shares the result of scanning this module between tests, since it takes seconds.
var scanOnce = sync.OnceValues(func() (m scannedModule, err error) {
	if m.sections, err = Rules(); err == nil {
		m.shown, err = Scan(os.DirFS(module), m.sections)
	}
	return m, err
})

// TestEveryRuleHasATest checks that each rule has either a test or a reason for having no test, but not
// both.
func TestEveryRuleHasATest(t *testing.T) {
	sections, shown := scanned(t)
	for _, s := range sections {
		for _, r := range s.Rules {
			switch tests := shown[r.ID]; {
			case len(tests) == 0 && r.Reason == "":
				t.Errorf("%s, %s: no test has a tag with it, and it has no reason", r.ID, r.Title)
			case len(tests) > 0 && r.Reason != "":
				t.Errorf("%s: %s shows it; its reason does not hold: %s", r.ID, tests[0], r.Reason)
			}
		}
	}
}

// docs/conformance.md agrees with the tests. It is written with -update.
func TestPage(t *testing.T) {
	sections, shown := scanned(t)
	file := filepath.Join(module, "docs", "conformance.md")
	want := Page(sections, shown)
	got, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("docs/conformance.md is stale, make conformance writes it anew (-is +shall be):\n%s",
		cmp.Diff(strings.Split(string(got), "\n"), strings.Split(string(want), "\n")))
}
