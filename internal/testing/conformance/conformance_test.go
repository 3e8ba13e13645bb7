package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// linkTarget finds the targets of links in a page.
var linkTarget = regexp.MustCompile(`\]\(([^)#]+)`)

// module is the root directory of this module.
const module = "../../.."

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

// TestPage generates the page and checks that each file that it refers to exists.
func TestPage(t *testing.T) {
	sections, shown := scanned(t)
	contents := Page(sections, shown)
	links := linkTarget.FindAllSubmatch(contents, -1)
	if len(links) < 1000 {
		t.Errorf("%d links to tests in the page, expected thousands", len(links))
	}
	checked := map[string]bool{}
	for _, link := range links {
		file := string(link[1])
		if checked[file] {
			continue
		}
		checked[file] = true
		if _, err := os.Stat(filepath.Join(module, "bin", file)); err != nil {
			t.Errorf("the page refers to a file that does not exist: %v", err)
		}
	}
}
