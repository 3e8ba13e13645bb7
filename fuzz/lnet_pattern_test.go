package fuzz

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// FuzzLNetPattern reads what a policy is about, and writes it again.
func FuzzLNetPattern(f *testing.F) {
	addTexts(f,
		"tcp", "tcp0", "tcp*", "tcp[1-3]", "tcp[1,2]", "o2ib[1-10/2, 13, 14]", "bxi3f2", "lo", "10.0.0.1@tcp", "10.0.0.[2-5]@tcp",
		"10.0.[1,3].*@tcp*", "*.*.*.*@tcp", "*@tcp", "21@gni", "[1-4294967295]@ptlf", "192.168.0.[1-10/2]@tcp",
		"", "@tcp", "10.0.0@tcp", "10.0.0.256@tcp", "10.0.0.[5-2]@tcp", "10.0.0.[1-5/0]@tcp", "10.0.0.010@tcp", "0x10@gni", "lo1", "tcp[1-3",
		"10.0.0.1@tcp@o2ib",
	)
	var nids []lnet.NID
	for _, s := range []string{"10.0.0.1@tcp", "10.0.1.9@tcp2", "2001:db8::1@tcp", "1.2.3.4@o2ib", "21@gni", "0@lo"} {
		nids = append(nids, lnetNID(f, s))
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d lnet.Pattern
		var err error
		lnetBounded(t, textLimit(s), func() { d, err = lnet.ParsePattern(s) })
		if err != nil {
			if bad := (*lnet.FieldError)(nil); !errors.As(err, &bad) || !d.IsZero() {
				t.Fatalf("%v, %v", d, err)
			}
			return
		}
		text := d.String()
		if len(text) > lnet.PatternMax { // a wildcard is longer when it is printed
			return
		}
		again, err := lnet.ParsePattern(text)
		if err != nil || !again.Equal(d) || again.String() != text {
			t.Fatalf("%q prints %q, which reads as %q (%v)", s, text, again, err)
		}
		for _, n := range nids {
			if d.MatchNID(n) != again.MatchNID(n) || d.MatchNID(n) && !d.MatchNet(n.Net()) {
				t.Fatalf("%v is in one of %q and %q", n, s, again)
			}
		}
	})
}
