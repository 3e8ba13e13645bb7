package prometheus

import (
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	publicDocs = "https://github.com/lnetd/lnetd/blob/main/docs"
	copiedDocs = "https://wiki.example.com/lnetd" // of the examples in docs/monitoring.md
)

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the anchors of the headings in a Markdown page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		words := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		all[words] = true
	}
	return all
}

// checkRunbooks checks that each alert in a file has an absolute URL below base, of a page about
// it, and that an anchor in the URL exists.
func checkRunbooks(t *testing.T, file, base string) {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	decode(t, file, &f)
	for _, a := range f.Groups[0].Rules {
		name := a.Annotations["runbook_url"]
		u, err := url.Parse(name)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
			t.Errorf("%s: runbook_url %q is no absolute URL of a page (%v)", a.Alert, name, err)
			continue
		}
		page, below := strings.CutPrefix(name, base+"/")
		page, _, _ = strings.Cut(page, "#")
		if !below || path.Base(page) != a.Alert+".md" {
			t.Errorf("%s: runbook_url %q, want the page of the alert below %s", a.Alert, name, base)
			continue
		}
		text, err := os.ReadFile(in("docs", filepath.FromSlash(page)))
		if err != nil {
			t.Errorf("%s: runbook_url %q: %v", a.Alert, name, err)
			continue
		}
		if u.Fragment != "" && !anchors(string(text))[u.Fragment] {
			t.Errorf("%s: runbook_url %q: the page has no such anchor", a.Alert, name)
		}
	}
}

// The runbook of each alert is a URL that a browser can open, of an existing page and anchor.
func TestRunbooksAreURLs(t *testing.T) {
	checkRunbooks(t, in("deploy", "prometheus", "lnetd.alerts.yaml"), publicDocs)
}

// The command of docs/monitoring.md changes the URLs of all alerts to those of a copy.
func TestRunbooksOfACopy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lnetd.alerts.yaml")
	if err := os.WriteFile(file, []byte(read(t, in("deploy", "prometheus", "lnetd.alerts.yaml"))), 0o600); err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^    (sed -i .*)$`).FindStringSubmatch(read(t, in("docs", "monitoring.md")))
	if command == nil {
		t.Fatal("docs/monitoring.md has no command that changes the URLs")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command[1]) //nolint:gosec // from our own page
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command[1], err, out)
	}
	checkRunbooks(t, file, copiedDocs)
}
