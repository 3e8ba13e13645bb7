package lnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lnetctl 12 (2)
func TestExpandNIDs(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.1@tcp":                   "10.0.0.1@tcp",
		"10.0.0.1":                       "10.0.0.1@tcp",
		"10.0.0.1@tcp,10.0.0.2@o2ib":     "10.0.0.1@tcp 10.0.0.2@o2ib",
		" 10.0.0.1@tcp , 5@gni":          "10.0.0.1@tcp 5@gni",
		"10.10.10.[1-3]@tcp":             "10.10.10.1@tcp 10.10.10.2@tcp 10.10.10.3@tcp",
		"10.[1,5].0.[2-6/2]@tcp1":        "10.1.0.2@tcp1 10.1.0.4@tcp1 10.1.0.6@tcp1 10.5.0.2@tcp1 10.5.0.4@tcp1 10.5.0.6@tcp1",
		"[6-12/4]@gni":                   "6@gni 10@gni",
		"[1]@gni":                        "1@gni",
		"10.0.0.[254]@tcp":               "10.0.0.254@tcp",
		"10.0.0.1@tcp[1-3]":              "10.0.0.1@tcp1 10.0.0.1@tcp2 10.0.0.1@tcp3",
		"2001:db8::[e-11]@tcp":           "2001:db8::e@tcp 2001:db8::f@tcp 2001:db8::10@tcp 2001:db8::11@tcp",
		"2001:db8::[1,a]:1@tcp[9-11]":    "2001:db8::1:1@tcp9 2001:db8::1:1@tcp10 2001:db8::1:1@tcp11 2001:db8::a:1@tcp9 2001:db8::a:1@tcp10 2001:db8::a:1@tcp11",
		"[fd00-fd02]::1@tcp":             "fd00::1@tcp fd01::1@tcp fd02::1@tcp",
		"[9-a]:[1,2]::@tcp[10]":          "9:1::@tcp10 9:2::@tcp10 a:1::@tcp10 a:2::@tcp10",
		"10.0.0.[1-2]@tcp,[3,5]@gni":     "10.0.0.1@tcp 10.0.0.2@tcp 3@gni 5@gni",
		"10.0.0.[1,1]@tcp":               "10.0.0.1@tcp 10.0.0.1@tcp",
		"[4294967294-4294967295]@kfi":    "4294967294@kfi 4294967295@kfi",
		"[1-4294967295/4294967294]@kfi1": "1@kfi1 4294967295@kfi1",
		"10.0.0.[ 1 , 2 ]@tcp":           "10.0.0.1@tcp 10.0.0.2@tcp",
		"0x10@kfi":                       "16@kfi",
		"0@lo":                           "0@lo",
	} {
		nids, err := ExpandNIDs(in, 128)
		var got []string
		for _, n := range nids {
			got = append(got, n.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q gives %v, %v, want %s", in, got, err, want)
		}
	}
}

// The largest list of sanity-lnet case 13.
func TestExpandNIDsMultiplies(t *testing.T) {
	nids, err := ExpandNIDs("[14-15].[1-2/1].[1].[100-254/10]@tcp,14.14.[254].14@o2ib", 128)
	if err != nil || len(nids) != 65 {
		t.Fatalf("%d NIDs, %v, want 65", len(nids), err)
	}
	for i, want := range map[int]string{0: "14.1.1.100@tcp", 15: "14.1.1.250@tcp", 16: "14.2.1.100@tcp", 63: "15.2.1.250@tcp", 64: "14.14.254.14@o2ib"} {
		if nids[i].String() != want {
			t.Errorf("NID %d is %v, want %s", i, nids[i], want)
		}
	}
}

// Texts that lnetctl 12.2 and case 99a of sanity-lnet reject.
//
// lnetctl 12 (2)
func TestExpandNIDsRefuses(t *testing.T) {
	anything := error(nil)
	for in, want := range map[string]error{
		"":                             errEmptyElement,
		",":                            errEmptyElement,
		"10.0.0.1@tcp,":                errEmptyElement,
		"10.0.0.1@tcp,,10.0.0.2@tcp":   errEmptyElement,
		"*@tcp":                        ErrAsterisk,
		"10.0.0.*@tcp":                 ErrAsterisk,
		"10.0.0.[*]@tcp":               ErrAsterisk,
		"1.1.1.[2-255]@tcp":            ErrTooMany,
		"[1-4294967295]@gni":           ErrTooMany,
		"[1-100]@gni,[1-29]@gni":       ErrTooMany,
		"[0-127]@gni,5@gni":            ErrTooMany,
		"10.[1-12].[1-11].1@tcp":       ErrTooMany,
		"[2-1]@gni":                    errWrongOrder,
		"1.]2[.3.4@o2ib":               errBracketOrder,
		"1.[2-4,[5-6],7-8].1.1@tcp":    errBracketOrder,
		"10.0.0.1]@tcp":                errBracketOrder,
		"10.0.0.[1@tcp":                errBracketSet,
		"10.0.0.[1,10.0.0.2@tcp":       errBracketSet,
		"10.0.0.[]@tcp":                errMissing,
		"10.0.0.[1-]@tcp":              errMissing,
		"10.0.0.[-2]@tcp":              errMissing,
		"10.0.0.[1-3/]@tcp":            errMissing,
		"10.0.0.[1,]@tcp":              errMissing,
		"10.0.0.[,1]@tcp":              errMissing,
		"10.0.0.[1-3/0]@tcp":           errNoStride,
		"[a-f/x]@gni":                  anything,
		"[a-f]@gni":                    anything,
		"2001:db8::[g]@tcp":            anything,
		"2001:db8::1@tcp[a]":           anything,
		"1.1.1.1.[2-5/f]@tcp":          anything,
		"1.1.1.1.[2-5]@tcp":            errDottedQuad,
		"256.256.256.256@tcp":          errDottedQuad,
		"1.1.1.[255-256]@tcp":          errDottedQuad,
		"2001:db8::[ffff-10000]@tcp":   errIPv6,
		"10.0.0.1@tcp[65535-65536]":    errNetNumber,
		"foobar":                       errDottedQuad,
		"1@foo":                        ErrUnknownType,
		"1@tcp":                        errDottedQuad,
		"1@o2ib":                       errDottedQuad,
		"1.1.1.1@gni":                  errNumber,
		"[4294967295-4294967296]@gni":  anything,
		"10.0.0.[1-2]@[tcp,o2ib]":      anything,
		"10.0.0.[0x1-0x2]@tcp":         anything,
		"10.0.0.[1-2-3]@tcp":           anything,
		strings.Repeat("[1-2]", 1<<20): ErrTooMany,
		strings.Repeat("[1]", 1<<20):   errLongText,
		strings.Repeat("x", 1<<20) + "[1-128]@lo":       errLongText,
		"10.0.0.1@tcp" + strings.Repeat("0", 256) + "1": errLongText,
	} {
		nids, err := ExpandNIDs(in, 128)
		if err == nil || want != nil && !errors.Is(err, want) || nids != nil {
			t.Errorf("%.60q gives %d NIDs, %v, want %v", in, len(nids), err, want)
			continue
		}
		wantNamed(t, err)
	}
}

func TestExpandNIDsLimit(t *testing.T) {
	for limit, ok := range map[int]bool{-1: false, 0: false, 5: false, 6: true} {
		nids, err := ExpandNIDs("10.0.[1-2].[1-3]@tcp", limit)
		if ok && len(nids) != 6 || !ok && !errors.Is(err, ErrTooMany) {
			t.Errorf("limit %d: %d NIDs, %v", limit, len(nids), err)
		}
	}
}

func TestExpandNIDsOfPlainNIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(genInterfaceNID(), 1, 10).Draw(t, "nids")
		texts := make([]string, len(want))
		for i, n := range want {
			texts[i] = n.String()
		}
		got, err := ExpandNIDs(strings.Join(texts, ","), len(want))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d NIDs, %v", len(got), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("NID %d is %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestExpandNets(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"tcp", "[tcp]"},
		{"tcp[8-9]", "[tcp8 tcp9]"},
		{"o2ib[1-5/2,7]", "[o2ib1 o2ib3 o2ib5 o2ib7]"},
		{"tcp[0-99]", `net "tcp[0-99]": specifies more`},
		{"tcp[", `net "tcp["`},
		{"foo[1-2]", `net "foo[1-2]"`},
	} {
		nets, err := ExpandNets(tt.text, 10)
		if got := fmt.Sprint(nets); err == nil && got != tt.want || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %s, %v; want %s", tt.text, got, err, tt.want)
		}
	}
}
