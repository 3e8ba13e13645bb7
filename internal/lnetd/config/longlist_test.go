package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// cuts returns a reading that cuts every list out of a document, and each list into pieces of one item.
func cuts(ctx context.Context) *reading {
	r := newReading(ctx, "f", testDrivers)
	r.wholeMax, r.pieceSize = 0, 1
	return r
}

// compareCut parses a document as a whole and in pieces, and fails unless the results are equal. It returns the
// number of lists that were cut out, and the problem of a piece that is not valid YAML.
func compareCut(t interface {
	Context() context.Context
	Errorf(string, ...any)
}, text string,
) (lists int, failed *Problem) {
	want, wantErr := Parse("f", []byte(text), testDrivers)
	r := cuts(t.Context())
	got, err := r.config([]byte(text), Default())
	_, invalid := r.decode([]byte(text))
	rest, _ := cutLongLists([]byte(text), r.pieceSize)
	_, restInvalid := r.decode(rest)
	switch {
	case r.failed != nil:
	case invalid != nil && err == nil:
		t.Errorf("in pieces this is valid YAML, as a whole %v\n%s", invalid, text)
	case invalid != nil: // of a document that is read in pieces, only one such error is reported
	case restInvalid != nil: // quotes and brackets across the borders of a list are rejected
	case fmt.Sprint(err) != fmt.Sprint(wantErr):
		t.Errorf("in pieces %v, as a whole %v\n%s", err, wantErr, text)
	case err == nil && !reflect.DeepEqual(want, got):
		t.Errorf("in pieces %+v, as a whole %+v\n%s", got, want, text)
	}
	return len(r.lists), r.failed
}

// Documents mean the same in pieces as they do as a whole, with the same warnings and errors.
func TestDocumentsInPieces(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "captures", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	const mistakes = "peer:\n- primary nid: 1@gni\n  peer nis: []\n- primary nid: 2@gni\n  frob: 1\n- {}\n- a\n- primary nid: 1@gni\n  peer ni:\n  - nid: 3@gni\n" +
		"peers:\n  - nids: [1@gni, 4@gni]\n\n  # a comment\n  - nids: [5]\nroute:\n- net: tcp1\n  gateway: 1@gni\n-\n  net: tcp1\n  gateway: 1@gni\n"
	lists := 0
	for _, text := range append(texts, site(20), string(Reference(testDrivers)), mistakes, mistakes+"---\n"+mistakes, strings.ReplaceAll(mistakes, "\n", "\r\n")) {
		cut, failed := compareCut(t, text)
		if failed != nil {
			t.Errorf("%v\n%s", failed, text)
		}
		lists += cut
	}
	if lists < 50 {
		t.Errorf("%d lists were cut out", lists)
	}
}

// Whatever a document consists of, it means the same in pieces, unless it is rejected.
func TestAnythingInPieces(t *testing.T) {
	lines := []string{
		"peer:", "peers:", "route: # c", "net:", "---", "...", "", "# c", "  # c", "- nids: [1@gni]", "  - nids: [2@gni]", "- primary nid: 1@gni", "  - primary nid: 2@gni",
		"    primary nid: 3@gni", "  state: |", "  state: 'a", "  - b'", "- a: \"", "- \" \\", "- [", "- ]", "  state: [", "  ]", "- net: tcp1", "  gateway: 1@gni", "    gateway: 2@gni",
		"-", "  -", "  x", "x: {", "}", "a: |", "\t- a", "- !!seq", "- ? a", "  : b", "- - a", "peer: >", "- |+", "statistics: '", "'", "%TAG ! a", "- *a", "- &a b", "\"", "- x\ry: z",
	}
	starts := []string{"", "peer:\n", "peer:\n- primary nid: 5@gni\n", "peers:\n  - nids: [5@gni]\n", "route:\n- net: tcp5\n  gateway: 5@gni\n"}
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom(starts).Draw(t, "start")
		compareCut(t, start+strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, 12).Draw(t, "lines"), "\n"))
	})
}

// Lists are cut out of a document that has anchors or aliases, but not both. Marks in texts are neither.
func TestListsAreCutWithoutAliases(t *testing.T) {
	const list = "peer:\n- primary nid: 1@gni\n"
	for text, cut := range map[string]bool{
		"": true, "# salt & pepper\n": true, "statistics: R&D*x\n": true, "statistics: &a 1\n": true, "statistics: [&a 1, *a]\n": false,
		"statistics: {\"a\":&a 1, \"b\":*a}\n": false, "udsp: # tcp*\nstatistics: &a 1\n": true, "&": true, "*": true,
	} {
		if _, lists := cutLongLists([]byte(list+text), 1); (len(lists) > 0) != cut {
			t.Errorf("%q: %d lists, want any: %t", text, len(lists), cut)
		}
	}
}

// A piece that is not valid YAML is the only problem, with its line in the document.
func TestInvalidPieces(t *testing.T) {
	const before = "peer:\n- primary nid: x\n- primary nid: 2@gni\n"
	for _, tt := range []struct{ text, want string }{
		{"- primary nid: 3@gni\n\tMulti-Rail: 1\n- primary nid: 4@gni\n", "f:5:1: the indentation contains a tab; indent with spaces only"},
		{"- primary nid: 3@gni\n- primary nid: \"4@gni\n- primary nid: 5@gni\n", "f:5:16: the closing quote \" is missing; add the closing quote"},
		{"- primary nid: 3@gni\n- peer ni: [{nid: 4@gni}\n", "f:5:12: the bracket [ is not closed; write ] at the end of the list or mapping"},
		{"- primary nid: *x\n", "f:4:16: the alias '*x' refers to the anchor '&x', which does not exist; put quotes around a value that begins with '*'"},
		{"- primary nid: 3@gni\n  Multi-Rail 1\n- primary nid: 4@gni\n", "f:5:12: the colon after 'Multi-Rail' is missing; write 'Multi-Rail: 1'"},
		{"- a\n- " + strings.Repeat("[", depthMax) + "\n", "f:5:66: more than 64 lists and mappings inside each other; close brackets where they end"},
		{"- a\x01\n", "f:4:4: the file contains a byte that is not text; save the file as UTF-8, without control characters"},
		{"- a\n- [" + strings.Repeat("a,", partsAtOnceMax/2) + "]\n", "f: more than 1000000 lines and items must be read at once; write peers and routes as lists in the style of an export, without aliases, or split it"},
	} {
		data := []byte(before + tt.text + "route:\n- net: tcp1\n")
		_, err := cuts(t.Context()).config(data, Default())
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Error() != tt.want {
			t.Errorf("%.100q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// Misspelled keys do not keep the trees of pieces in memory, and those outside lists are still remembered.
func TestPiecesAreDiscarded(t *testing.T) {
	const text = "peer:\n- primary nids: 1@gni\n- primary nids: 2@gni\nnet:\n- net types: gni\n"
	r := cuts(t.Context())
	_, err := r.config([]byte(text), Default())
	if len(r.suggestions) != 1 || len(r.lists) != 1 {
		t.Errorf("the suggestions for %d mappings are kept; %d lists", len(r.suggestions), len(r.lists))
	}
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 4 {
		t.Errorf("%v, want one problem for each misspelled key, and a warning that no interface is given", err)
	}
}

// Reading a large document needs little more memory than its result, which is its own text and the peers, and
// allocates in proportion to the document's size.
func TestMemoryOfALargeDocument(t *testing.T) {
	var live, allocated []uint64
	for _, n := range []int{testenv.Fewer(10_000), testenv.Fewer(20_000)} {
		text := site(n)
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := newReading(t.Context(), "f", testDrivers)
		r.wholeMax = 0
		f := r.read([]byte(text))
		c := Default()
		c.addPeers(&f)
		runtime.GC()
		runtime.ReadMemStats(&during)
		if len(c.Peers) != n || len(r.lists) != 2 {
			t.Fatalf("%d peers, %d lists", len(c.Peers), len(r.lists))
		}
		used := during.HeapAlloc - min(before.HeapAlloc, during.HeapAlloc)
		if used > 3*uint64(len(text)) {
			t.Errorf("%d bytes are in use for a document of %d", used, len(text))
		}
		live, allocated = append(live, used), append(allocated, during.TotalAlloc-before.TotalAlloc)
	}
	t.Log(live, allocated)
	if 10*allocated[1] > 23*allocated[0] {
		t.Errorf("%d bytes are allocated, and %d for a document of twice the size", allocated[0], allocated[1])
	}
}
