package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/control/api"
)

// costs returns the bytes that are allocated while a document is read.
func costs(text string) (uint64, error) {
	var before, after runtime.MemStats
	data := []byte(text)
	runtime.ReadMemStats(&before)
	_, err := Parse("f", data, testDrivers)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// checkCosts tests that a document costs no more than one of its size may.
func checkCosts(t interface {
	Helper()
	Errorf(string, ...any)
}, text string,
) {
	t.Helper()
	// The shape of a document and the words for 10,000 problems take the first part. A value
	// of two bytes takes a node each time that a part which is no YAML is left out.
	const base, perByte = 64 << 20, 8000
	if n, err := costs(text); n > base+perByte*uint64(len(text)) {
		t.Errorf("%.40q: %d bytes cost %d: %.200v", text, len(text), n, err)
	}
}

// numbered lines are as long as size together.
func numberedLines(size int, format string) string {
	var b strings.Builder
	for k := 0; b.Len() < size; k++ {
		fmt.Fprintf(&b, format+"\n", k)
	}
	return b.String()
}

// A document costs time and memory in proportion to its size. What costs more
// than that takes hundreds of megabytes here.
func TestCostOfADocument(t *testing.T) {
	const size = 1 << 16
	for _, unit := range []string{
		"[", "{", "{a: ", "{? ", "[a: ", "- ", "? ", ": ", ":", "!a ", "&a ", "*a ", "*a, ", "[*a, ", "!", "&", "*", "|", ">", "%", "@", "`",
		"'", "\"", "\\", "\"a\" ", "#", " #", "\t", " ", "\n", "\r", "\x00", "\xef\xbb\xbf", "\xc3", "a", "a ", "a: ", ",", ", ", "]", "}", "[]", "{}",
		"-", "---\n", "--- ", "...\n", "---\nnet:\n", "net:\n", "? a\n", "- a\n", "- *a\n", "a: b\n", "<<: *a\n", "- [a\n", " - a\n", "- - - a\n",
	} {
		for _, around := range [][2]string{
			{}, {"net: ", ""}, {"net: [", "]"}, {"net: \"", "\""}, {"a: &a [b]\nnet:\n- ", "\n"}, {"route:\n- net: ", "\n"}, {"%", ""}, {"lnetd: |\n ", ""},
		} {
			checkCosts(t, around[0]+strings.Repeat(unit, size/8/len(unit))+around[1])
		}
	}
	long := strings.Repeat("k", size/2)
	for _, text := range []string{
		numberedLines(size, "k%d: a"), numberedLines(size, "k%d: *a"), numberedLines(size, "- &a%d b"), numberedLines(size, "k%d: \""),
		"net:\n- net type: tcp\n" + numberedLines(size, "  k%d: a"), "lnetd:\n" + numberedLines(size, "  k%d: a"),
		"net: [" + strings.Repeat("a, ", size/3) + "]\n",
		"lnetd:\n  \"" + long + "\":\n" + numberedLines(size/2, "    k%d: a"),
		"a: &a " + long + "\nroute: [" + strings.Repeat("*a, ", size/8) + "]\n",
		"a: &a " + long + "\nroute: [" + strings.Repeat("{net: *a}, ", size/22) + "]\n",
		strings.Repeat(strings.Repeat("- ", depthMax/2)+"\n", size/depthMax),
		strings.Repeat("- "+strings.Repeat("[", depthMax/2)+strings.Repeat("]", depthMax/2)+"\n", size/depthMax),
		"a: \"]]]]]]]]\"\nb: " + strings.Repeat("[ #]\n", size/5), // 10,000 deep: the library stops
		"\xff\xfe" + strings.Repeat("[\x00", size/2), "\xfe\xff" + strings.Repeat("\x00[", size/2), "\xff\xfe" + strings.Repeat("a\x00:\x00 \x00", size/8),
	} {
		checkCosts(t, text)
	}
}

// What repeats anything costs in proportion to how often.
func TestCostOfAnything(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("[]{}:,-?&*!|>'\"#%@ \t\nabn0<")), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		before, unit := word.Draw(t, "before"), word.Draw(t, "unit")
		checkCosts(t, before+strings.Repeat(unit, (8<<10)/len(unit)))
	})
}

// A bracket that is nested too deeply is found before the document is read as YAML, one that
// comments and quotes hide when it is. What is text does not count.
func TestDepth(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, text := range []string{
		"statistics: " + nest(depthMax-1) + "\n", "statistics: {a: '" + nest(1000) + "', b: \"\\\"" + nest(1000) + "\"} # " + nest(1000) + "\n",
		"statistics:\n" + strings.Repeat("- a[\n", 50) + "net: []\n", "# " + strings.Repeat("[", 1000) + "\n",
		strings.Repeat("statistics: [[]]\n", 100), "statistics: it's [x]\n",
	} {
		if _, err := Parse("f", []byte(text), testDrivers); err != nil {
			t.Errorf("%.60q: %.200v", text, err)
		}
	}
	for _, text := range []string{
		"net: " + nest(depthMax+1) + "\n", "net:\n" + strings.Repeat("- ", depthMax+1) + "a\n", strings.Repeat("[", 100_000), strings.Repeat("{", 100_000),
		"net: " + strings.Repeat("[ #]\n ", depthMax+1) + strings.Repeat("]", depthMax+1) + "\n",
		"net: " + strings.Repeat("[\n", depthMax+1) + strings.Repeat("]", depthMax+1) + "\n",
		"\xff\xfe" + strings.Join(strings.Split("net: "+nest(depthMax+1)+"\n", ""), "\x00") + "\x00",
	} {
		_, err := Parse("f", []byte(text), testDrivers)
		if err == nil || !strings.Contains(err.Error(), "more than 64 lists and mappings inside each other") {
			t.Errorf("%.60q: %.200v", text, err)
		}
	}
}

// A document may be as long as the control interface takes, and have so many documents.
func TestBoundsOfADocument(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"#" + strings.Repeat(" ", api.DocumentMax-2) + "\n", ""},
		{"#" + strings.Repeat(" ", api.DocumentMax-1) + "\n", "f: more than 16777216 bytes; split it"},
		{strings.Repeat("---\nnet: []\n", documentsMax), ""},
		{strings.Repeat("---\nnet: []\n", documentsMax+2), "f: more than 1000 documents; split it"},
	} {
		_, err := Parse("f", []byte(c.text), testDrivers)
		if err == nil && c.says != "" || err != nil && err.Error() != c.says {
			t.Errorf("%.20q: %.200v", c.text, err)
		}
	}
}

// ReadFile reads no more of an endless file than shows that it is too long.
func TestReadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lnet.conf")
	if err := os.WriteFile(name, []byte("net: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(name); err != nil || string(b) != "net: []\n" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := ReadFile("/dev/zero"); err != nil || len(b) != api.DocumentMax+1 {
		t.Errorf("%d, %v", len(b), err)
	}
	if _, err := ReadFile(name + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// site has as many peers with four NIDs, and as many routes.
func site(n int) string {
	var b strings.Builder
	b.WriteString("route:\n")
	for k := range n {
		fmt.Fprintf(&b, "- net: tcp%d\n  gateway: 10.0.%d.%d@tcp\n  hop: 1\n  priority: 0\n", 1+k/1000, k%1000/250, 1+k%250)
	}
	b.WriteString("peer:\n")
	for k := range n {
		fmt.Fprintf(&b, "- primary nid: 10.1.%d.%d@tcp\n  Multi-Rail: True\n  peer ni:\n", k/250, 1+k%250)
		for net := range 4 {
			fmt.Fprintf(&b, "  - nid: 10.%d.%d.%d@tcp\n", 1+net, k/250, 1+k%250)
		}
	}
	return b.String()
}

// The bounds leave room for the largest sites.
func TestSiteWithinBounds(t *testing.T) {
	const n = 20_000
	c, err := Parse("f", []byte(site(n)), testDrivers)
	if err != nil || len(c.Routes) != n || len(c.Peers) != n {
		t.Errorf("%d routes, %d peers, %.300v", len(c.Routes), len(c.Peers), err)
	}
}

// A document is not read for a caller that has left.
func TestReadingEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	text := []byte(site(10))
	_, over := ParseOver(ctx, "f", text, testDrivers, &State{})
	_, deletion := ParseDeletion(ctx, "f", text, testDrivers)
	_, errands := ParseErrands(ctx, "f", text)
	if diff := cmp.Diff([]bool{true, true, true}, []bool{errors.Is(over, gone), errors.Is(deletion, gone), errors.Is(errands, gone)}); diff != "" {
		t.Error(diff, over, deletion, errands)
	}
}

// Bytes that no site writes are problems with a place, or mean what they look like.
func TestOddBytes(t *testing.T) {
	const plain = "route:\n  - net: tcp1\n    gateway: 1.2.3.4@tcp\n"
	for _, text := range []string{
		"\ufeff" + plain, strings.ReplaceAll(plain, "\n", "\r\n"), strings.ReplaceAll(plain, "\n", "\r"), plain + "...\n", "---\n" + plain + "---\n",
	} {
		c, err := Parse("f", []byte(text), testDrivers)
		if err != nil || len(c.Routes) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		strings.Replace(plain, "tcp1", "tcp1\x00", 1), strings.Replace(plain, "    gateway", "\tgateway", 1), plain + "\xff\n", plain + "\x1b[1m\n",
		"\xff\xfe" + plain, "\xff\xfer\x00o", "route: &a {<<: *a}\n", "route: [{<<: {net: tcp1}, gateway: 1.2.3.4@tcp}]\n",
		"a: &a [*b]\nb: &b [*a]\n", "route: *r\n", plain + "  - " + strings.Repeat("x", 1<<20) + ": 1\n",
		"route: [" + strings.Repeat("{net: tcp1, net: tcp1},", 1000) + "]\n",
	} {
		_, err := Parse("f", []byte(text), testDrivers)
		var problems Problems
		if !errors.As(err, &problems) || problems[0].Line < 1 || len(err.Error()) > 200_000 {
			t.Errorf("%.60q: %.300v", text, err)
		}
	}
}
