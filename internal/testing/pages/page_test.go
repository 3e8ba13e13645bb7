package pages

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A page with every marker, and blocks that need none.
func TestParse(t *testing.T) {
	page := strings.ReplaceAll(`# Title

<!-- a comment -->
<!-- hosts: a eth0=10.0.0.1 eth1=10.0.1.1, b eth0=10.0.0.2 -->
<!-- given b:
first
second
-->
<!-- file a b: /etc/x.yaml -->

'''yaml
key: value
'''

Text.

<!-- run a, status 2, except three -->

    one \
        more
    # only a comment

    two   # a comment
    three x

'''go
program()
'''

<!-- prints -->

'''text
out...
'''

<!-- run -->

'''sh
here
'''

<!-- not run: needs a site -->

    there
<!-- machines: m eth0=10.0.0.3 -->
`, "'''", "```")
	a := Host{"a", []Interface{{"eth0", netip.MustParseAddr("10.0.0.1")}, {"eth1", netip.MustParseAddr("10.0.1.1")}}}
	b := Host{"b", []Interface{{"eth0", netip.MustParseAddr("10.0.0.2")}}}
	m := Host{"m", []Interface{{"eth0", netip.MustParseAddr("10.0.0.3")}}}
	want := []Step{
		{Kind: Hosts, Line: 4, Hosts: []Host{a, b}},
		{Kind: Given, Line: 5, On: []string{"b"}, Text: "first\nsecond\n"},
		{Kind: File, Line: 9, On: []string{"a", "b"}, Path: "/etc/x.yaml", Text: "key: value\n"},
		{Kind: Run, Line: 17, On: []string{"a"}, Status: 2, Except: []string{"three"}, Text: "one \\\n    more\n# only a comment\n\ntwo   # a comment\nthree x\n"},
		{Kind: Prints, Line: 30, Text: "out...\n"},
		{Kind: Run, Line: 36, On: []string{""}, Except: []string{}, Text: "here\n"},
		{Kind: NotRun, Line: 42, Reason: "needs a site", Text: "there\n"},
		{Kind: Machines, Line: 45, Hosts: []Host{m}},
	}
	got, err := Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	// The program is a block without commands, so the output belongs to the commands before it.
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"one \\\n    more", "two   # a comment"}, got[3].Commands()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestParseMistakes(t *testing.T) {
	for _, tt := range []struct{ name, page, want string }{
		{"no marker", "Text.\n\n    command\n", "line 3: commands without a marker"},
		{"no marker of a fence", "```sh\ncommand\n```\n", "line 1: commands without a marker"},
		{"no block", "<!-- run a -->\n<!-- run b -->\n\n    command\n", "line 1: no block follows the marker"},
		{"no block at the end", "<!-- prints -->\n", "line 1: no block follows the marker"},
		{"unknown words", "<!-- run a, exit 1 -->\n\n    command\n", `line 1: invalid marker "run a, exit 1"`},
		{"no reason", "<!-- not run: -->\n", `line 1: invalid marker "not run:"`},
		{"no interface", "<!-- hosts: a -->\n", `line 1: host "a" has no interface`},
		{"no address", "<!-- hosts: a eth0=x -->\n", `line 1: host a: "eth0=x" is not DEVICE=IPV4-ADDRESS`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.page)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		page, output string
		want         bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\n", "a\nb\n", false},
		{"a...\n", "a\nb\n", true},
		{"...b...", "a\nb\nc\n", true},
		{"a ... d", "a b\nc d", true},
		{"a ... e", "a b\nc d", false},
		{"(a)*", "aaa", false},
	} {
		if got := Matches(tt.page, tt.output); got != tt.want {
			t.Errorf("%q of %q: %v", tt.page, tt.output, got)
		}
	}
}
