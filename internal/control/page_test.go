package control

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/control.md lists the requests that there are.
func TestPageListsRequests(t *testing.T) {
	page, err := os.ReadFile("../../docs/control.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	h := handlers{Server: &Server{}}
	var served []string
	for _, routes := range []map[string]http.HandlerFunc{h.quick(), h.slow(), h.changes()} {
		for pattern := range routes {
			if pattern != "/" { // the answer to all others
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
