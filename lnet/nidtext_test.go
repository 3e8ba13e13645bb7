package lnet

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// lnet-wire 3.2 (1)-(2), 3.3
// lnetctl 12 (4)
func TestParseNID(t *testing.T) {
	// Text to parse, and how the result prints.
	tests := map[string]string{
		"192.168.1.10":          "192.168.1.10@tcp", // no net: tcp
		"192.168.1.10@tcp0":     "192.168.1.10@tcp",
		"192.168.1.10@tcp007":   "192.168.1.10@tcp7",
		"192.168.001.010@tcp":   "192.168.1.10@tcp", // decimal, not octal
		"0.0.0.0@tcp":           "0.0.0.0@tcp",
		"255.255.255.255@o2ib":  "255.255.255.255@o2ib",
		"10.1.2.3@efa":          "10.1.2.3@efa",
		"10.1.2.3@gip2":         "10.1.2.3@gip2",
		"2001:DB8:0:0::10@tcp":  "2001:db8::10@tcp",
		"2001:db8::10":          "2001:db8::10@tcp",
		"::1@tcp":               "::1@tcp",
		"::@tcp":                "::@tcp",
		"::ffff:1.2.3.4@tcp":    "::ffff:1.2.3.4@tcp", // stays an address of 16 bytes
		"fe80::1@o2ib1":         "fe80::1@o2ib1",
		"1:2:3:4:5:6:1.2.3.4":   "1:2:3:4:5:6:102:304@tcp",
		"17@gni":                "17@gni",
		"017@gni":               "17@gni",
		"0x1234@kfi1":           "4660@kfi1",
		"0Xff@ptlf":             "255@ptlf",
		"4294967295@bxi3f":      "4294967295@bxi3f",
		"0@lo":                  "0@lo",
		"@lo":                   "0@lo",
		"anything at all-1@lo":  "0@lo",
		"<?>":                   "<?>",
		"12.34.56.78@bxi3f":     "", // not a number
		"1.2.3.4@gni":           "",
		"2001:db8::1@gip":       "",
		"2001:db8::1@kfi":       "",
		"1.2.3.4@tcpx":          "",
		"1@lo1":                 "",
		"1.2.3@tcp":             "",
		"[2001:db8::10]@tcp":    "",
		"[fe80::1]@tcp":         "",
		"fe80::1%eth0@tcp":      "",
		"":                      "",
		"@":                     "",
		"@tcp":                  "",
		"@gni":                  "",
		"*":                     "",
		"*@tcp":                 "",
		"1.2.3.4@":              "",
		"1.2.3.4@foo":           "",
		"1.2.3.4@tcp65536":      "",
		"1.2.3.4@tcp@tcp":       "",
		"0@lo@lo":               "",
		"<?>@tcp":               "",
		"1.2.3.4.5@tcp":         "",
		"1.2.3.@tcp":            "",
		".1.2.3@tcp":            "",
		"1..2.3@tcp":            "",
		"1.2.3.256@tcp":         "",
		"1.2.3.0004@tcp":        "",
		"1.2.3.-4@tcp":          "",
		"1.2.3.+4@tcp":          "",
		"1.2.3.0x4@tcp":         "",
		" 1.2.3.4@tcp":          "",
		"1.2.3.4 @tcp":          "",
		"1.2.3.4@tcp ":          "",
		"1.2.3.4@ tcp":          "",
		"1@tcp":                 "",
		"1@o2ib":                "",
		"1:2@tcp":               "",
		"1:2:3:4:5:6:7:8:9@tcp": "",
		"4294967296@gni":        "",
		"0x@gni":                "",
		"0x100000000@gni":       "",
		"ff@gni":                "",
		"-1@gni":                "",
		"host@tcp":              "",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			n, err := ParseNID(in)
			if want == "" {
				if err == nil {
					t.Fatalf("gives %v, want an error", n)
				}
				wantNamed(t, err)
				if !n.IsZero() {
					t.Errorf("gives %v beside the error", n)
				}
				return
			}
			if err != nil || n.String() != want {
				t.Fatalf("gives %v, %v, want %s", n, err, want)
			}
		})
	}
}

func TestParseNIDErrors(t *testing.T) {
	for in, want := range map[string]error{
		"1.2.3@tcp":        errDottedQuad,
		"[2001:db8::]@tcp": errIPv6,
		"x@gni":            errNumber,
		"1@lo1":            errLoNumber,
		"1.2.3.4@tcp65536": errNetNumber,
		"1.2.3.4@foo":      ErrUnknownType,
		"1@gni@gni":        errManyAt,
	} {
		_, err := ParseNID(in)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), in) {
			t.Errorf("%q: error %v, want %v with the text", in, err, want)
		}
	}
}

func TestLongTextIsShortInErrors(t *testing.T) {
	_, err := ParseNID(strings.Repeat("1", 1<<20))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

// NIDs of unknown net types print in hexadecimal (lnet-wire 3.3).
//
// lnet-wire 3.3
func TestUnknownNIDsPrint(t *testing.T) {
	small := NIDFromNumber(MakeNet(TypeTOFU, 3), 0x1f)
	if got := small.String(); got != "1f@<17:3>" {
		t.Errorf("small: %q", got)
	}
	large := mustNID(t, "2001:db8::10@tcp").AppendLarge(nil)
	large[1] = byte(TypeTOFU)
	n, err := DecodeLarge(large)
	if err != nil || n.String() != "20010db8:0:0:10@<17:0>" {
		t.Errorf("large: %q, %v", n, err)
	}
	for _, want := range []NID{small, n} {
		if got, err := ParseNID(want.String()); err != nil || got != want {
			t.Errorf("%s is read as %s, %v", want, got, err)
		}
	}
	for _, bad := range []string{"@<17:0>", "0x1f@<17:0>", "1f:2@<17:0>", "1:2:3:4:5@<17:0>", "1:2:3:x@<17:0>", "100000000@<17:0>"} {
		if got, err := ParseNID(bad); err == nil {
			t.Errorf("%q is read as %s", bad, got)
		}
	}
	if _, err := ParseNID("0x1f@<17:0>"); !errors.Is(err, errHex) { // decimal numbers and 0x are for types with names
		t.Error(err)
	}
}

func TestNIDInJSON(t *testing.T) {
	type document struct {
		NID   NID         `json:"nid"`
		None  NID         `json:"none"`
		Table map[NID]int `json:"table"`
	}
	in := document{NID: mustNID(t, "2001:db8::10@tcp1"), Table: map[NID]int{mustNID(t, "10.0.0.1@tcp"): 1}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"nid":"2001:db8::10@tcp1","none":"","table":{"10.0.0.1@tcp":1}}`; string(text) != want {
		t.Errorf("JSON %s, want %s", text, want)
	}
	var out document
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if out.NID != in.NID || !out.None.IsZero() || out.Table[mustNID(t, "10.0.0.1@tcp")] != 1 {
		t.Errorf("JSON gives %+v", out)
	}
	if err := json.Unmarshal([]byte(`{"nid":"1.2.3@tcp"}`), &out); err == nil || out.NID != in.NID {
		t.Errorf("bad NID: error %v, NID %v", err, out.NID)
	}
}
