package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The search for syntax mistakes finds none in valid YAML.
func TestNothingSuspectInYAML(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "captures", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"reference": string(Reference(testDrivers)), "forms": `
a: 'it''s # one'   # a comment
b: "x \" y"
c: |
    free: [ text
      {"
d: >-
  more ' text
e: {a: [1, 2], "b c": 'd',
  g: h}
f:
- a: 1
  b:
  - c
  -   d: 1
      e: 2
-
  x: y
- - z
"quoted key": 1
h: &anchor {a: 1}
i: *anchor
j: !!str 5
k: eth0[0-1]
l: 10.0.[0,1].*@tcp
m: a word
  that goes on
n: fd77::11@tcp
...
---
o: 1
`}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, text := range texts {
		if _, err := newReading(t.Context(), "f", nil).decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, ends := range []string{"\n", "\r\n"} {
			if s := findSyntaxProblem(strings.ReplaceAll(text, "\n", ends), sections(testDrivers)); s != nil {
				t.Errorf("%s: %+v", name, *s)
			}
		}
	}
}

// The way a file was saved does not matter: a byte order mark, other line ends, two documents,
// anchors, UTF-16.
//
// lnetctl 7 (8)
func TestFilesFromElsewhere(t *testing.T) {
	const text = "global:\n    retry_count: 5\n---\nnuma:\n    range: 7\n"
	wide := []byte{0xff, 0xfe}
	for _, c := range []byte(text) {
		wide = append(wide, c, 0)
	}
	want := mustParse(t, text)
	if want.Parameters.RetryCount != 5 || want.Parameters.NUMARange != 7 {
		t.Fatalf("%+v", want.Parameters)
	}
	for _, form := range []string{
		"\ufeff" + text, strings.ReplaceAll(text, "\n", "\r\n"), string(wide),
		"global: {retry_count: &n 5}\nnuma:\n  range: 0x7\n",
	} {
		if diff := cmp.Diff(want, mustParse(t, form)); diff != "" {
			t.Errorf("%q: %s", form, diff)
		}
	}
}

// If the YAML parser does not report a line, the line is determined.
func TestLineOfAnErrorWithoutOne(t *testing.T) {
	text := "global:\n    discovery: 1\nudsp:\n" + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + "\nnuma: {range: x}\n"
	_, err := Parse("f", []byte(text), testDrivers)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 2 || problems[0].Line != 4 || problems[1].Line != 5 {
		t.Errorf("%v", err)
	}
}

// A problem repeats only the beginning of a long value.
func TestLongValuesAreCut(t *testing.T) {
	long := strings.Repeat("ä", 1<<17)
	for _, text := range []string{
		"global: {discovery: " + long + "}", "route: [{net: " + long + "}]", long + ": 1", "lnetd: {" + long + ": {}}", long,
		"net: [{net type: tcp, interfaces: {" + long + ": eth0}}]", "net: [{net type: tcp, interfaces: " + long + "}]",
		"udsp: [{idx: 0, src: 'x" + long + "'}]", "lnetd: {networks: 'tcp(" + long + "'}", "numa: {range: [] " + long + "}",
		"buffers: {" + long + ": {a: 1, a: 1}, tiny: {}}", "peer: [{primary nid: \"\\t" + long + "\"}]",
	} {
		_, err := Parse("f", []byte(text), testDrivers)
		if said := fmt.Sprint(err); err == nil || len(said) > 4000 || !utf8.ValidString(said) {
			t.Errorf("%.40s: %d bytes: %.80s", text, len(said), said)
		}
	}
}

// A small file cannot expand to a large one.
func TestAliasesAreBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for k := range 9 {
		fmt.Fprintf(&bomb, "b%d: &a%d [%s*a%d]\n", k, k+1, strings.Repeat(fmt.Sprintf("*a%d, ", k), 9), k)
	}
	for _, text := range []string{
		bomb.String() + "net: *a9\n", "net: &a [*a, *a]\n", "peer: [" + strings.Repeat("{peer ni: &n [{nid: 1@gni}], x: *n}, ", 40_000) + "]\n",
	} {
		_, err := Parse("f", []byte(text), testDrivers)
		if err == nil || !strings.Contains(err.Error(), "the aliases expand to more than 100000 values") {
			t.Errorf("%.40s: %.200v", text, err)
		}
	}
}

// Of very many mistakes, the first are reported, with the number of the others.
func TestManyMistakes(t *testing.T) {
	_, err := Parse("f", []byte("route:\n"+strings.Repeat("  - {net: tpc, gatway: 1.2.3@tcp, hop: 0}\n", 3000)), testDrivers)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 101 || !strings.Contains(problems[100].Text, "and 8900 more") {
		t.Errorf("%d problems, %.2000v", len(problems), err)
	}
	_, err = Parse("f", []byte("net: ["+strings.Repeat("a, ", 100_000)+"]\n"), testDrivers)
	if !errors.As(err, &problems) || len(problems) != 101 || !strings.Contains(problems[100].Text, "and at least 9") {
		t.Errorf("%d problems, %.2000v", len(problems), err)
	}
}

// A document with too many values is not parsed.
func TestManyValues(t *testing.T) {
	for _, text := range []string{"net: [" + strings.Repeat("a,", partsAtOnceMax/2) + "]\n", strings.Repeat("\n", partsAtOnceMax+1)} {
		_, err := Parse("f", []byte(text), testDrivers)
		if err == nil || !strings.HasPrefix(err.Error(), "f: more than 1000000 lines and items must be read at once; ") {
			t.Errorf("%.200v", err)
		}
	}
}
