package lnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// selection 6.7, 6.4 (1)-(3)
// lnetctl 12 (3)
func TestPattern(t *testing.T) {
	for _, c := range []struct {
		text, prints string
		match, not   string // NIDs
	}{
		{"tcp", "tcp", "10.0.0.1@tcp 2001:db8::1@tcp", "10.0.0.1@tcp1 10.0.0.1@o2ib"},
		{"tcp0", "tcp", "10.0.0.1@tcp", "10.0.0.1@tcp1"},
		{"tcp7", "tcp7", "10.0.0.1@tcp7", "10.0.0.1@tcp"},
		{"tcp*", "tcp[0-4294967295]", "10.0.0.1@tcp 10.0.0.1@tcp65535", "10.0.0.1@o2ib"},
		{"tcp[1-3]", "tcp[1-3]", "10.0.0.1@tcp1 10.0.0.1@tcp3", "10.0.0.1@tcp 10.0.0.1@tcp4"},
		{"tcp[1,2]", "tcp[1,2]", "10.0.0.1@tcp1 10.0.0.1@tcp2", "10.0.0.1@tcp3"},
		{"o2ib[1-10/2, 13, 14]", "o2ib[1-10/2,13,14]", "1.1.1.1@o2ib3 1.1.1.1@o2ib14", "1.1.1.1@o2ib2 1.1.1.1@o2ib15"},
		{"bxi3f2", "bxi3f2", "5@bxi3f2", "5@bxi3f"},
		{"lo", "lo", "0@lo", "10.0.0.1@tcp"},
		{"10.0.0.1@tcp", "10.0.0.1@tcp", "10.0.0.1@tcp", "10.0.0.2@tcp 10.0.0.1@tcp1 a00:1::@tcp"},
		{"10.0.0.[2-5]@tcp", "10.0.0.[2-5]@tcp", "10.0.0.2@tcp 10.0.0.5@tcp", "10.0.0.1@tcp 10.0.0.6@tcp"},
		{"10.0.[1,3].*@tcp*", "10.0.[1,3].[0-255]@tcp[0-4294967295]", "10.0.3.255@tcp9", "10.0.2.1@tcp"},
		{"192.168.0.[1-10/2]@tcp", "192.168.0.[1-10/2]@tcp", "192.168.0.9@tcp", "192.168.0.10@tcp"},
		{"*.*.*.*@tcp", "[0-255].[0-255].[0-255].[0-255]@tcp", "10.0.0.1@tcp 2001:db8::1@tcp", "10.0.0.1@tcp1"},
		{"*@tcp", "[0-255].[0-255].[0-255].[0-255]@tcp", "10.0.0.1@tcp", "10.0.0.1@tcp1"},
		{"[0-255].[0-255].[0-255].[0-255]@tcp", "[0-255].[0-255].[0-255].[0-255]@tcp", "10.0.0.1@tcp", "10.0.0.1@tcp1"},
		{"21@gni", "21@gni", "21@gni", "22@gni"},
		{"*@kfi", "[0-4294967295]@kfi", "22@kfi", "22@kfi1"},
		{"[1-4294967295]@ptlf", "[1-4294967295]@ptlf", "7@ptlf", "0@ptlf"},
		{"tcp[5]", "tcp5", "1.1.1.1@tcp5", "1.1.1.1@tcp"},
		{"tcp[3-3]", "tcp3", "1.1.1.1@tcp3", "1.1.1.1@tcp"},
	} {
		d, err := ParsePattern(c.text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if d.String() != c.prints {
			t.Errorf("%s prints %s, want %s", c.text, d, c.prints)
		}
		if again, err := ParsePattern(d.String()); err != nil || !again.Equal(d) {
			t.Errorf("%s prints %s, which reads as %s (%v)", c.text, d, again, err)
		}
		for k, list := range []string{c.match, c.not} {
			for _, s := range strings.Fields(list) {
				nid, err := ParseNID(s)
				if err != nil {
					t.Fatal(err)
				}
				if d.MatchNID(nid) != (k == 0) {
					t.Errorf("%s matches %s: %v", c.text, nid, k != 0)
				}
			}
		}
	}
}

// selection 6.7
func TestPatternRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                       "unknown network type",
		"@tcp":                   "1 parts, but tcp needs 4",
		"udp":                    "unknown network type",
		"tcpx":                   "unexpected character",
		"10.0.0.1@":              "unknown network type",
		"10.0.0@tcp":             "3 parts, but tcp needs 4",
		"10.0.0.1.1@tcp":         "5 parts, but tcp needs 4",
		"10.0.0.256@tcp":         "not a number 0 to 255",
		"10.0.0.[5-2]@tcp":       "wrong order",
		"10.0.0.[1-5/0]@tcp":     "stride is 0",
		"10.0.0.[1-5@tcp":        "brackets",
		"10.0.0.[]@tcp":          "not a number",
		"10.0.0.010@tcp":         "leading zeros",
		"0x10@gni":               "unexpected character",
		"1.2@gni":                "2 parts, but gni needs 1",
		"4294967296@gni":         "not a number",
		"tcp4294967296":          "not a number",
		"tcp[1-3":                "brackets",
		"lo1":                    "lo cannot have a number",
		"10.0.0.1@tcp@o2ib":      "unexpected character",
		"2001:db8::1@tcp":        "1 parts, but tcp needs 4",
		strings.Repeat("1", 5e3): "longer than 4096",
	} {
		d, err := ParsePattern(text)
		if bad := (*FieldError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), why) || !d.IsZero() {
			t.Errorf("%.20s: %v, %v; want %s", text, d, err, why)
		}
	}
	keep, _ := ParsePattern("tcp")
	if err := keep.UnmarshalText([]byte("udp")); err == nil || keep.String() != "tcp" {
		t.Errorf("%v, %v", keep, err)
	}
	if err := keep.UnmarshalText(nil); err != nil || !keep.IsZero() || keep.String() != "" || keep.MatchNet(0) {
		t.Errorf("%v, %v", keep, err)
	}
}

// OneNet succeeds for a pattern of one net only, with or without an address.
func TestPatternOfOneNet(t *testing.T) {
	for text, want := range map[string]string{
		"tcp": "tcp", "tcp7": "tcp7", "tcp[5-5]": "tcp5", "10.0.0.*@o2ib2": "o2ib2", "tcp65535": "tcp65535",
		"tcp*": "", "tcp[1,2]": "", "tcp[1-3]": "", "tcp65536": "", "*@tcp[0-1]": "",
	} {
		p, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := p.OneNet()
		if ok != (want != "") || ok && n.String() != want {
			t.Errorf("%s is about %s alone: %v", text, n, ok)
		}
		if typ := p.NetType(); typ != TypeTCP && typ != TypeO2IB {
			t.Errorf("%s is of the type %v", text, typ)
		}
	}
	if n, ok := (Pattern{}).OneNet(); ok || (Pattern{}).NetType() != 0 {
		t.Errorf("no pattern at all is about %v", n)
	}
}

// selection 6.3 (1)
func TestPatternEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"tcp", "tcp0", true}, {"*@tcp", "*.*.*.*@tcp", true}, {"10.0.0.[1,2]@tcp", "10.0.0.[ 1, 2 ]@tcp", true},
		{"10.0.0.[1,2]@tcp", "10.0.0.[2,1]@tcp", false}, {"10.0.0.[1,2]@tcp", "10.0.0.[1-2]@tcp", false},
		{"tcp", "*@tcp", false}, {"tcp", "tcp1", false}, {"tcp", "o2ib", false},
	} {
		a, errA := ParsePattern(c.a)
		b, errB := ParsePattern(c.b)
		if errA != nil || errB != nil || a.Equal(b) != c.want || b.Equal(a) != c.want {
			t.Errorf("%s and %s: %v (%v, %v)", c.a, c.b, a.Equal(b), errA, errB)
		}
	}
}

// selection 6.7
func TestPatternsReadBack(t *testing.T) {
	expr := rapid.StringMatching(`\*|[1-9][0-9]?|\[[1-9](-9[0-9](/[1-9])?)?(,[1-9]|,10-200){0,2}\]`)
	rapid.Check(t, func(t *rapid.T) {
		text := "tcp" + rapid.SampledFrom([]string{"", expr.Draw(t, "net")}).Draw(t, "number")
		if rapid.Bool().Draw(t, "address") {
			text = fmt.Sprintf("%s.%s.%s.%s@%s", expr.Draw(t, "1"), expr.Draw(t, "2"), expr.Draw(t, "3"), expr.Draw(t, "4"), text)
		}
		d, err := ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParsePattern(d.String())
		if err != nil || !again.Equal(d) || again.String() != d.String() {
			t.Fatalf("%s prints %s, which reads as %s (%v)", text, d, again, err)
		}
	})
}
