package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// costs returns the bytes that reading a document allocates.
func costs(text string) (uint64, error) {
	var before, after runtime.MemStats
	data := []byte(text)
	runtime.ReadMemStats(&before)
	_, err := Parse("f", data, testDrivers)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, err
}

// checkCosts tests that a document of twice the length costs about twice as much. Anything
// quadratic would cost four times as much.
func checkCosts(t interface {
	Helper()
	Errorf(string, ...any)
}, of func(size int) string,
) {
	t.Helper()
	const base = 4 << 20
	size := testenv.Fewer(16 << 10)
	once, _ := costs(of(size))
	if twice, err := costs(of(2 * size)); twice > 3*once+base {
		t.Errorf("%.40q: %d bytes, then %d: %.200v", of(size), once, twice, err)
	}
}

// repeated returns documents that repeat a unit.
func repeated(before, unit, after string) func(size int) string {
	return func(size int) string { return before + strings.Repeat(unit, max(size/len(unit), 1)) + after }
}

// numberedLines returns numbered lines with a total length of size.
func numberedLines(size int, format string) string {
	var b strings.Builder
	for k := 0; b.Len() < size; k++ {
		fmt.Fprintf(&b, format+"\n", k)
	}
	return b.String()
}

// A document costs memory in proportion to its size, whatever it repeats.
func TestCostOfADocument(t *testing.T) {
	for _, unit := range []string{
		"[", "{", "{a: ", "{? ", "[a: ", "- ", "? ", ": ", ":", "!a ", "&a ", "*a ", "*a, ", "[*a, ", "!", "&", "*", "|", ">", "%", "@", "`",
		"'", "\"", "\\", "\"a\" ", "#", " #", "\t", " ", "\n", "\r", "\x00", "\xef\xbb\xbf", "\xc3", "a", "a ", "a: ", ",", ", ", "]", "}", "[]", "{}",
		"-", "---\n", "--- ", "...\n", "---\nnet:\n", "net:\n", "? a\n", "- a\n", "- *a\n", "a: b\n", "<<: *a\n", "- [a\n", " - a\n", "- - - a\n", "[ #]\n ",
	} {
		for _, around := range [][2]string{{}, {"net: [", "]"}, {"a: &a [b]\nnet:\n- ", "\n"}, {"net: \"", "\""}} {
			checkCosts(t, repeated(around[0], unit, around[1]))
		}
	}
	nested := strings.Repeat("[", depthMax/2) + strings.Repeat("]", depthMax/2)
	for _, of := range []func(size int) string{
		func(n int) string { return numberedLines(n, "k%d: a") },
		func(n int) string { return numberedLines(n, "k%d: *a") },
		func(n int) string { return numberedLines(n, "- &a%d b") },
		func(n int) string { return numberedLines(n, "k%d: \"") },
		func(n int) string { return "net:\n- net type: tcp\n" + numberedLines(n, "  k%d: a") },
		func(n int) string { return "lnetd:\n" + numberedLines(n, "  k%d: a") },
		func(n int) string {
			return "net:\n- net type: tcp\n  interfaces:\n    " + strings.Repeat("0", 4*n) + ":\n" + numberedLines(4*n, "      k%d: a")
		},
		func(n int) string {
			return "a: &a " + strings.Repeat("k", n/2) + "\nroute: [" + strings.Repeat("*a, ", n/8) + "]\n"
		},
		func(n int) string {
			return "a: &a " + strings.Repeat("k", n/2) + "\nroute: [" + strings.Repeat("{net: *a}, ", n/22) + "]\n"
		},
		repeated("", strings.Repeat("- ", depthMax/2)+"\n", ""), repeated("", "- "+nested+"\n", ""),
		repeated("\xff\xfe", "[\x00", ""), repeated("\xfe\xff", "\x00[", ""), repeated("\xff\xfe", "a\x00:\x00 \x00", ""),
	} {
		checkCosts(t, of)
	}
}

// Repeating anything costs memory in proportion to the number of repetitions.
func TestCostOfAnything(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("[]{}:,-?&*!|>'\"#%@ \t\nabn0<")), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		before, unit := word.Draw(t, "before"), word.Draw(t, "unit")
		checkCosts(t, repeated(before, unit, ""))
	})
}

// A bracket that is nested too deeply is found before the document is parsed as YAML. If comments
// and quotes hide it, it is found afterwards. Brackets in text do not count.
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

// A document may be as long, and contain as many documents, as the control interface accepts.
func TestBoundsOfADocument(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"#" + strings.Repeat(" ", api.DocumentMax-2) + "\n", ""},
		{"#" + strings.Repeat(" ", api.DocumentMax-1) + "\n", "f: more than 16777216 bytes; split it"},
		{strings.Repeat("---\nnet: []\n", documentsMax), ""},
		{strings.Repeat("---\nnet: []\n", documentsMax+2), "f: more than 1000 documents; split it"},
		{"peer:\n" + strings.Repeat("-\n", partsMax/2+1), "f: more than 4000000 lines and items; split it"},
		{"route:\n- " + strings.Repeat("[", partsMax+1), "f: more than 4000000 lines and items; split it"},
		{"net: [" + strings.Repeat("a,", partsAtOnceMax/2) + "]\n", "f: more than 1000000 lines and items must be read at once; write peers and routes as lists in the style of an export, without aliases, or split it"},
	} {
		_, err := Parse("f", []byte(c.text), testDrivers)
		if err == nil && c.says != "" || err != nil && err.Error() != c.says {
			t.Errorf("%.20q: %.200v", c.text, err)
		}
	}
}

// ReadFile stops reading an endless file as soon as it is too long.
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

// site has n peers with four NIDs each, and n routes.
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
	n := testenv.Fewer(20_000)
	c, err := Parse("f", []byte(site(n)), testDrivers)
	if err != nil || len(c.Routes) != n || len(c.Peers) != n {
		t.Errorf("%d routes, %d peers, %.300v", len(c.Routes), len(c.Peers), err)
	}
}

// Reading stops when the caller has left.
func TestReadingEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	text := []byte(site(10))
	_, over := ParseOver(ctx, "f", text, testDrivers, &State{})
	_, deletion := ParseDeletion(ctx, "f", text, testDrivers)
	_, errands := ParseRequests(ctx, "f", text)
	if diff := cmp.Diff([]bool{true, true, true}, []bool{errors.Is(over, gone), errors.Is(deletion, gone), errors.Is(errands, gone)}); diff != "" {
		t.Error(diff, over, deletion, errands)
	}
}

// Unusual bytes give problems with a position, or mean what they look like.
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

// Rules and NIs are compared with each other, so their number is bounded in documents that add
// and that delete.
func TestFewRules(t *testing.T) {
	items := func(section, item string, n int) string {
		var b strings.Builder
		b.WriteString(section + ":\n")
		for k := range n {
			b.WriteString("  - " + strings.ReplaceAll(item, "%d", strconv.Itoa(k)) + "\n")
		}
		return b.String()
	}
	for _, tt := range []struct{ section, item, want string }{
		{"udsp", "{idx: %d, src: tcp%d}", `more than 1000 items of "udsp"`},
		{"selection", "{id: %d, type: net, net: tcp%d, priority: 0}", `more than 1000 items of "selection"`},
		{"net", "{net type: tcp%d, interfaces: [eth0]}", "more than 1000 NIs"},
	} {
		for n, want := range map[int]string{rulesMax: "", rulesMax + 1: tt.want, rulesMax + 100: tt.want} {
			_, err := Parse("f", []byte(items(tt.section, tt.item, n)), testDrivers)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%d of %s: %.300v, want %q", n, tt.section, err, want)
			}
		}
	}
	_, err := ParseDeletion(t.Context(), "f", []byte(items("udsp", "{idx: %d}", rulesMax+1)), testDrivers)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 items") {
		t.Errorf("a deletion: %.300v", err)
	}
}

// leaving is a context that ends after it was checked a given number of times.
type leaving struct {
	context.Context
	looks int
}

func (l *leaving) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}

func (l *leaving) Value(key any) any { return nil } // the library does not recognize the context as its own

// Reading checks for the end of its context throughout, not only while it scans the text.
func TestReadingLooksForItsEnd(t *testing.T) {
	const items = 200
	text := []byte(site(items))
	for looks := 0; ; looks++ {
		ctx := &leaving{Context: t.Context(), looks: looks}
		_, err := ParseOver(ctx, "f", text, testDrivers, &State{})
		if ctx.looks < 0 && !errors.Is(err, context.Canceled) {
			t.Errorf("ended at look %d: %v", looks, err)
		}
		if ctx.looks >= 0 {
			if looks < 2*items {
				t.Errorf("%d looks for %d items", looks, items)
			}
			return
		}
		looks += looks / 4
	}
}

// Duplicate peers, in both forms, are found without comparing each peer with all others.
func TestRepeatedPeers(t *testing.T) {
	n := testenv.Fewer(5_000)
	var b strings.Builder
	for _, entry := range []struct{ section, format string }{
		{"peer", "- primary nid: 10.1.%[1]d.%[2]d@tcp\n  peer ni: [{nid: 10.2.%[1]d.%[2]d@tcp}]\n"},
		{"peer", "- primary nid: 10.1.%[1]d.%[2]d@tcp\n  peer ni: [{nid: 10.3.%[1]d.%[2]d@tcp}]\n"},
		{"peer", "- primary nid: 10.9.9.9@tcp\n  peer ni: [{nid: 10.8.%[1]d.%[2]d@tcp}]\n"},
		{"peers", "- nids: [10.4.%[1]d.%[2]d@tcp, 10.3.%[1]d.%[2]d@tcp]\n"},
		{"peers", "- nids: [10.4.%[1]d.%[2]d@tcp, 10.5.%[1]d.%[2]d@tcp]\n"},
	} {
		fmt.Fprintf(&b, "---\n%s:\n", entry.section)
		for k := range n {
			fmt.Fprintf(&b, entry.format, k/250, 1+k%250)
		}
	}
	c, err := Parse("f", []byte(b.String()), testDrivers)
	if err != nil || len(c.Peers) != n+1 {
		t.Fatalf("%d peers, %.300v", len(c.Peers), err)
	}
	for k, p := range c.Peers[:n] {
		if got, want := fmt.Sprint(p.nids()), fmt.Sprintf("[10.4.%[1]d.%[2]d@tcp 10.5.%[1]d.%[2]d@tcp]", k/250, 1+k%250); got != want {
			t.Fatalf("peer %d has %s, want %s", k, got, want)
		}
	}
}
