package server

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageNamesLstCommands checks that docs/selftest.md names all commands of lst.
func TestPageNamesLstCommands(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/selftest.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## Control interface\n")
	if !found {
		t.Fatal("docs/selftest.md has no section on the control interface")
	}
	var named []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(text, -1) {
		if m[1] != "key" {
			named = append(named, "POST /v1/lst/"+m[1])
		}
	}
	h := handlers{Server: &Server{}}
	served := slices.Concat(slices.Collect(maps.Keys(h.lst())), slices.Collect(maps.Keys(h.holds())))
	slices.Sort(named)
	slices.Sort(served)
	if diff := cmp.Diff(served, named); diff != "" {
		t.Errorf("docs/selftest.md (-served +named):\n%s", diff)
	}
}

// TestPageListsRequests checks that docs/control.md lists all requests.
func TestPageListsRequests(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/control.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	h := handlers{Server: &Server{}}
	var served []string
	for _, routes := range []map[string]handler{h.quick(), h.slow(), h.changes()} {
		for pattern := range routes {
			if pattern != "/" { // "/" answers all others
				served = append(served, pattern)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(served)
	if diff := cmp.Diff(served, listed); diff != "" {
		t.Errorf("docs/control.md (-served +listed):\n%s", diff)
	}
}
