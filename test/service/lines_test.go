package service

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines returns the lines of a unit, without comments.
func lines(t *testing.T, unit string) (list []string) {
	t.Helper()
	b, err := os.ReadFile("../../deploy/systemd/" + unit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// The unit for namespaces equals the other one, except for lines about namespaces.
func TestUnitsAreAlike(t *testing.T) {
	own := func(list []string) (rest []string) {
		for _, line := range list {
			switch key, _, _ := strings.Cut(line, "="); key {
			case "Description", "Wants", "After", "AssertPathExists", "ExecStart", "NetworkNamespacePath", "RuntimeDirectory", "RuntimeDirectoryPreserve":
			default:
				rest = append(rest, line)
			}
		}
		return rest
	}
	if diff := cmp.Diff(own(lines(t, "lnetd.service")), own(lines(t, "lnetd@.service"))); diff != "" {
		t.Errorf("(-lnetd.service +lnetd@.service):\n%s", diff)
	}
}

// docs/service.md explains each line that restricts lnetd.
func TestLinesAreExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	hardening := false
	for _, line := range lines(t, "lnetd.service") {
		hardening = hardening && line[0] != '[' || strings.HasPrefix(line, "AmbientCapabilities=")
		key, _, _ := strings.Cut(line, "=")
		if hardening && !strings.Contains(string(page), "`"+key+"=") {
			t.Errorf("nothing on %s", key)
		}
	}
}
