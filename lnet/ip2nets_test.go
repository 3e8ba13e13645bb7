package lnet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// addresses parses the addresses of a node, separated by blanks.
func addresses(s string) (list []netip.Addr) {
	for _, a := range strings.Fields(s) {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// The example of lnet-wire 3.7, and the rules around it.
//
// lnet-wire 3.7 (1)-(2)
// lnetctl 13 (3)
func TestIP2Nets(t *testing.T) {
	const example = "tcp1(eth3) 10.20.30.[2-8/2]; tcp,o2ib(ib0) 172.16.[1,3].* 172.17.*.*; tcp *.*.*.*"
	for _, tt := range []struct {
		in    string
		local string
		want  string // empty: nothing matches
	}{
		{example, "10.20.30.4", "tcp1(eth3),tcp"},
		{example, "10.20.30.5", "tcp"},
		{example, "172.16.3.9", "tcp,o2ib(ib0),tcp"},
		{example, "172.16.2.9", "tcp"},
		{example, "172.17.0.1", "tcp,o2ib(ib0),tcp"},
		{example, "172.17.0.1 10.20.30.8", "tcp1(eth3),tcp,o2ib(ib0),tcp"},
		{example, "", ""},
		{example, "2001:db8::1", ""}, // only IPv4 matches
		{"tcp 32.1.*.*", "2001:db8::1", ""},
		{"tcp 10.0.0.*", "::ffff:10.0.0.1", "tcp"},
		{"tcp 10.0.0.1", "10.0.0.1", "tcp"},
		{"tcp 10.0.0.1", "10.0.0.2", ""},
		{"tcp", "10.0.0.1", ""}, // no pattern never matches
		{"", "10.0.0.1", ""},
		{" ; \n\r # tcp *.*.*.*", "10.0.0.1", ""},
		{"# tcp *.*.*.* ; o2ib *.*.*.*", "10.0.0.1", "o2ib"}, // a comment ends at the separator
		{"tcp 10.*.*.* # 11.*.*.*\no2ib 11.*.*.*\rkfi 10.0.*.*", "10.0.0.1", "tcp,kfi"},
		{"tcp\t10.0.0.*\v11.0.0.*", "11.0.0.1", "tcp"},
		{"tcp[0,1] 10.0.0.*", "10.0.0.1", "tcp[0,1]"},
		{"tcp(eth0[0],eth1)[1] 10.0.0.*", "10.0.0.1", "tcp(eth0[0],eth1)[1]"},
		{"tcp(eth0) 10.0.0.1; tcp1(eth0) 10.0.0.1", "10.0.0.1", "tcp(eth0),tcp1(eth0)"},
		{"tcp(eth0) 10.0.0.1; tcp(eth1) 10.0.0.1", "10.0.0.1", "tcp(eth0),tcp(eth1)"},
		{"lo *.*.*.*", "10.0.0.1", "lo"},
		{"tcp(e0,e1) [10,11].[0,1].[0,2].[1,2]", "11.1.2.2", "tcp(e0,e1)"},
	} {
		rules, err := ParseIP2Nets(tt.in)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		got, err := rules.Match(addresses(tt.local))
		switch {
		case tt.want == "" && !errors.Is(err, ErrNoMatch):
			t.Errorf("%q for %s gives %v, %v, want %v", tt.in, tt.local, got, err, ErrNoMatch)
		case tt.want != "" && (err != nil || got.String() != tt.want):
			t.Errorf("%q for %s gives %v, %v, want %s", tt.in, tt.local, got, err, tt.want)
		}
	}
}

// lnet-wire 3.7 (1)
func TestParseIP2NetsRefuses(t *testing.T) {
	for _, in := range []string{
		"tcp 10.0.0", "tcp 10.0.0.0.0", "tcp 10.0.0.256", "tcp 10.0.0.[2-1]", "tcp 10.0.0.[0-4/0]", "tcp 10.0.0.x", "tcp 10.0.0.0/8",
		"tcp ::1", "tcp eth0", "tcp 10.0.0.*,11.0.0.*",
		"foo 10.0.0.*", "10.0.0.*", "tcp65536 10.0.0.*",
		"tcp(eth0, eth1) 10.0.0.*", "tcp (eth0) 10.0.0.*", "tcp(eth0) , o2ib 10.0.0.*", "tcp, o2ib 10.0.0.*", "tcp(eth0)o2ib 10.0.0.*",
		"tcp,tcp 10.0.0.*", "tcp(eth0),o2ib,tcp0(eth1) 10.0.0.*",
		"tcp(eth0 10.0.0.*", "tcp) 10.0.0.*", ",tcp 10.0.0.*",
		"o2ib 10.0.0.*; tcp 10.0.0",
		"tcp 10.0.0.*" + strings.Repeat(" 10.0.0.*", maxModuleString/9),
	} {
		got, err := ParseIP2Nets(in)
		if err == nil || got != nil {
			t.Errorf("%q gives %v, %v, want an error", in, got, err)
			continue
		}
		wantNamed(t, err)
	}
}

// Rules that are fine alone may not put an interface on one net twice.
func TestIP2NetsMatchLimitsTotal(t *testing.T) {
	rules, err := ParseIP2Nets("tcp(eth0) 10.0.0.*; tcp(eth1,eth0) 10.0.*.*")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rules.Match(addresses("10.0.1.1")); err != nil || got.String() != "tcp(eth1,eth0)" {
		t.Errorf("one rule gives %v, %v", got, err)
	}
	if got, err := rules.Match(addresses("10.0.0.1")); !errors.Is(err, errDuplicateInterface) || got != nil {
		t.Errorf("both rules give %v, %v", got, err)
	}
}

func TestIPPatternText(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.*":                "10.0.0.*",
		"*.*.*.*":                 "*.*.*.*",
		"192.168.[1-2].*":         "192.168.[1-2].*",
		"[0-255].[0-255/2].010.1": "*.[0-255/2].8.1",
	} {
		p, err := ParseIPPattern(in)
		if err != nil || p.String() != want {
			t.Errorf("%q gives %v, %v, want %s", in, p.String(), err, want)
		}
	}
	if _, err := ParseIPPattern("10.0.0"); err == nil || !strings.Contains(err.Error(), `IP pattern "10.0.0"`) {
		t.Errorf("three octets: %v", err)
	}
}

func TestIP2NetsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want IP2Nets
		for range rapid.IntRange(1, 4).Draw(t, "rules") {
			var r IP2NetsRule
			seen := map[Net]bool{}
			for _, spec := range genNetworks().Draw(t, "networks") {
				if !seen[spec.Net] {
					seen[spec.Net] = true
					r.Nets = append(r.Nets, spec)
				}
			}
			for range rapid.IntRange(0, 3).Draw(t, "patterns") {
				octet := genRangeExpr(255)
				r.Patterns = append(r.Patterns, IPPattern{
					octet.Draw(t, "a"), octet.Draw(t, "b"), octet.Draw(t, "c"), octet.Draw(t, "d"),
				})
			}
			want = append(want, r)
		}
		text := want.String()
		got, err := ParseIP2Nets(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	})
}

func ExampleIP2Nets_Match() {
	rules, err := ParseIP2Nets("tcp(eth0) 10.0.[0-3].*; o2ib(ib0) 10.8.0.[2-254/2]")
	if err != nil {
		fmt.Println(err)
		return
	}
	nets, err := rules.Match([]netip.Addr{netip.MustParseAddr("10.0.2.7"), netip.MustParseAddr("10.8.0.12")})
	fmt.Println(nets, err)
	// Output: tcp(eth0),o2ib(ib0) <nil>
}
