package lnet

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lnet-wire 3.5 (1), 3.5 (3)-(4)
func TestNIDList(t *testing.T) {
	for _, c := range []struct {
		text, prints string
		match, not   string // NIDs
	}{
		{"192.168.0.[1-10/2]@tcp", "192.168.0.[1-10/2]@tcp", "192.168.0.1@tcp 192.168.0.9@tcp", "192.168.0.8@tcp 192.168.0.1@tcp1 192.168.0.1@o2ib"},
		{"192.168.[0,5,7].*@tcp1", "192.168.[0,5,7].[0-255]@tcp1", "192.168.5.9@tcp1", "192.168.6.9@tcp1 192.168.5.9@tcp"},
		{"10.0.0.0/8@tcp", "10.0.0.0/8@tcp", "10.9.9.9@tcp", "11.0.0.1@tcp a09:909::@tcp"},
		{"2001:db8::/32@tcp", "2001:db8::/32@tcp", "2001:db8::1@tcp", "2001:db9::1@tcp 10.0.0.1@tcp"},
		{"1.2.3.4/32@tcp", "1.2.3.4@tcp", "1.2.3.4@tcp", "1.2.3.5@tcp"},
		{"fd77::1@tcp", "fd77::1@tcp", "fd77::1@tcp", "fd77::2@tcp"},
		{"*@o2ib", "*@o2ib", "1.1.1.1@o2ib fd77::1@o2ib", "1.1.1.1@o2ib1 1.1.1.1@tcp"},
		{"[0-0xff,1024]@gni", "[0-255,1024]@gni", "255@gni 1024@gni", "256@gni 255@kfi"},
		{"010.0.0.1@tcp0x10", "8.0.0.1@tcp16", "8.0.0.1@tcp16", "10.0.0.1@tcp16"},
		{"1.1.1.1@tcp  2.2.2.2@o2ib 3.3.3.0/24@tcp", "3.3.3.0/24@tcp 1.1.1.1@tcp 2.2.2.2@o2ib", "1.1.1.1@tcp 2.2.2.2@o2ib 3.3.3.9@tcp", "2.2.2.2@tcp"},
		{"1.1.1.1@tcp *@tcp", "*@tcp", "9.9.9.9@tcp", "1.1.1.1@tcp1"},
		{"1.0.0.0/8@gni", "1.0.0.0/8@gni", "", "16777217@gni"}, // it never matches
	} {
		l, err := ParseNIDList(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := l.String(); got != c.prints {
			t.Errorf("%s prints as %s, want %s", c.text, got, c.prints)
		}
		for nids, want := range map[string]bool{c.match: true, c.not: false} {
			for _, s := range strings.Fields(nids) {
				nid, err := ParseNID(s)
				if err != nil {
					t.Fatal(err)
				}
				if l.Match(nid) != want {
					t.Errorf("%s matches %s: %v", c.text, s, !want)
				}
			}
		}
	}
}

// lnet-wire 3.5 (2)
func TestNIDListRefuses(t *testing.T) {
	for _, s := range []string{
		"", "  ", "tcp", "10.0.0.1", "*", "192.168.0.1@tcp,192.168.0.2@tcp", "1.2.3.[5-4]@tcp", "10.0.0.0/0@tcp", "10.0.0.0/33@tcp",
		"2001:db8::/0@tcp", "fe80::1%eth0@tcp", "1.2.3@tcp", "1.2.3.4@tcpx", "1@lo1", "1.2.3.4.5@tcp", "1.2.3.256@tcp", "1.2.3.[1-9/0]@tcp",
		"1.2.3.4@tcp\t1.2.3.5@tcp", "1.2.3.4@tcp@tcp", "1.2.3.[4@tcp",
	} {
		l, err := ParseNIDList(s)
		var f *FieldError
		if !errors.As(err, &f) || l.String() != "" {
			t.Errorf("%q: %v, %v", s, l, err)
		}
	}
}

// The normal form of a list parses to the same list.
//
// lnet-wire 3.5 (4)
func TestNIDListReadsBack(t *testing.T) {
	item := rapid.SampledFrom([]string{
		"*@tcp", "10.0.0.[1-9/2]@tcp", "10.*.0.1@o2ib3", "10.0.0.0/9@tcp1", "fd77::/16@tcp", "fd77::9@tcp1", "[1,2,5-9]@kfi", "7@gni2",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(item, 1, 6).Draw(t, "items"), " ")
		l, err := ParseNIDList(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseNIDList(l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%s: %s: %s, %v", text, l, again, err)
		}
	})
}
