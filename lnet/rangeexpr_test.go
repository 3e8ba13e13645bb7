package lnet

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lnetctl 12 (1)
func TestParseRangeExpr(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit uint32
		text  string
		yes   []uint32
		no    []uint32
	}{
		{"7", 255, "7", []uint32{7}, []uint32{0, 6, 8}},
		{"*", 255, "[0-255]", []uint32{0, 17, 255}, []uint32{256}},
		{"[*]", 255, "[0-255]", []uint32{0, 255}, nil},
		{"[7]", 255, "7", []uint32{7}, []uint32{8}},
		{"[1-10/2]", 255, "[1-10/2]", []uint32{1, 3, 5, 7, 9}, []uint32{0, 2, 8, 10, 11}},
		{"[1-9/1]", 255, "[1-9]", []uint32{1, 2, 9}, []uint32{0, 10}},
		{"[5-5/3]", 255, "5", []uint32{5}, []uint32{8}},
		{"[0,5,7]", 255, "[0,5,7]", []uint32{0, 5, 7}, []uint32{1, 6}},
		{"[7,0-2,*]", 9, "[7,0-2,0-9]", []uint32{9}, []uint32{10}},
		{"[0-0xff,1024]", math.MaxUint32, "[0-255,1024]", []uint32{255, 1024}, []uint32{256}},
		{"0X10", 255, "16", []uint32{16}, nil},
		{"010", 255, "8", []uint32{8}, []uint32{10}},
		{"0", 255, "0", []uint32{0}, []uint32{1}},
		{" [ 1 - 4 / 2 , 9 ] ", 255, "[1-4/2,9]", []uint32{1, 3, 9}, []uint32{2, 4}},
		{"4294967295", math.MaxUint32, "4294967295", []uint32{math.MaxUint32}, []uint32{0}},
		{"[1-4294967295/4294967295]", math.MaxUint32, "[1-4294967295/4294967295]", []uint32{1}, []uint32{2, math.MaxUint32}},
	} {
		e, err := ParseRangeExpr(tt.in, tt.limit)
		if err != nil || e.String() != tt.text {
			t.Errorf("%q gives %v, %v, want %s", tt.in, e, err, tt.text)
			continue
		}
		for _, v := range tt.yes {
			if !e.Match(v) {
				t.Errorf("%q does not match %d", tt.in, v)
			}
		}
		for _, v := range tt.no {
			if e.Match(v) {
				t.Errorf("%q matches %d", tt.in, v)
			}
		}
	}
}

func TestParseRangeExprRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                  "not a number",
		"[]":                "not a number",
		"[1":                "unbalanced brackets",
		"1]":                "not a number",
		"[1,]":              "not a number",
		"[,1]":              "not a number",
		"[1,,2]":            "not a number",
		"[5-4]":             errWrongOrder.Error(),
		"[1-4/0]":           errNoStride.Error(),
		"[1-]":              "not a number",
		"[-4]":              "not a number",
		"[1-4/]":            "not a number",
		"[1/2]":             "not a number",
		"[1-2-3]":           "not a number",
		"[1-4/2/2]":         "not a number",
		"[1-*]":             "not a number",
		"1-4":               "not a number",
		"1,2":               "not a number",
		"256":               "not a number 0 to 255",
		"[0-256]":           "not a number 0 to 255",
		"08":                "not a number",
		"0x":                "not a number",
		"0xg":               "not a number",
		"ff":                "not a number",
		"+1":                "not a number",
		"0x+1":              "not a number",
		"1_0":               "not a number",
		"[[1]]":             "not a number",
		"[1][2]":            "not a number",
		"[1-4/99999999999]": "not a number",
	} {
		e, err := ParseRangeExpr(in, 255)
		if err == nil || !strings.Contains(err.Error(), want) || e != nil {
			t.Errorf("%q gives %v, %v, want %q", in, e, err, want)
			continue
		}
		wantNamed(t, err)
	}
}

// Kernels divide by a stride of 0. A Range made by hand must not.
//
// lnet-wire 3.5 (2), 12 (1)
func TestRangeStrideZero(t *testing.T) {
	r := Range{Lo: 1, Hi: 3}
	if !r.Match(2) || r.Match(4) || r.String() != "1-3" {
		t.Errorf("%v matches 2: %v, 4: %v", r, r.Match(2), r.Match(4))
	}
	if _, err := ParseRangeExpr("[1-3/0]", 255); !errors.Is(err, errNoStride) {
		t.Errorf("parsing stride 0: %v", err)
	}
}

func genRangeExpr(limit uint32) *rapid.Generator[RangeExpr] {
	return rapid.Custom(func(t *rapid.T) RangeExpr {
		var e RangeExpr
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			lo := rapid.Uint32Max(limit).Draw(t, "lo")
			r := Range{Lo: lo, Hi: rapid.Uint32Range(lo, limit).Draw(t, "hi"), Stride: 1}
			if r.Hi > r.Lo {
				r.Stride = rapid.Uint32Range(1, 300).Draw(t, "stride")
			}
			e = append(e, r)
		}
		return e
	})
}

func TestRangeExprRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]uint32{0, 9, 255, math.MaxUint32}).Draw(t, "limit")
		want := genRangeExpr(limit).Draw(t, "expression")
		got, err := ParseRangeExpr(want.String(), limit)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v gives %v, %v", want, got, err)
		}
	})
}

func TestRangeExprBelow(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want []int // nil for an error
	}{
		{"[0,2]", 4, []int{0, 2}},
		{"[3,1-2,2]", 4, []int{1, 2, 3}},
		{"*", 3, []int{0, 1, 2}},
		{"[*]", 1, []int{0}},
		{"[0-6/3]", 8, []int{0, 3, 6}},
		{"4", 4, nil},
		{"[0-4]", 4, nil},
		{"[0-4294967294]", 4, nil},
		{"*", 0, nil},
	} {
		e, err := ParseRangeExpr(tt.in, math.MaxUint32)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Below(tt.n)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%s below %d: %v, %v, want %v", tt.in, tt.n, got, err, tt.want)
		}
	}
}
