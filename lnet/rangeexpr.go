package lnet

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// blanks are the characters that may surround the elements of most texts in this package.
const blanks = " \t\v\r\n"

// Range is the set of numbers Lo, Lo+Stride, Lo+2*Stride and so on up to Hi. A Stride of 0
// is the same as 1.
type Range struct {
	Lo, Hi, Stride uint32
}

// Match reports whether v is in the range.
func (r Range) Match(v uint32) bool {
	return v >= r.Lo && v <= r.Hi && (v-r.Lo)%max(r.Stride, 1) == 0
}

// String returns text such as "7", "1-9" or "1-9/2".
func (r Range) String() string { return string(r.append(nil)) }

func (r Range) append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(r.Lo), 10)
	if r.Lo == r.Hi {
		return b
	}
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(r.Hi), 10)
	if r.Stride > 1 {
		b = append(b, '/')
		b = strconv.AppendUint(b, uint64(r.Stride), 10)
	}
	return b
}

// RangeExpr is a range expression: a set of numbers (lnet-wire 3.5, lnetctl 12.1). It is
// used in NID lists, ip2nets patterns and CPT lists:
//
//	numrange = number | "*" | "[" rexpr { "," rexpr } "]"
//	rexpr    = number | "*" | number "-" number [ "/" stride ]
//
// A number is hexadecimal after 0x, octal after 0, otherwise decimal. The set is the union
// of the ranges, which are in the order of the text. A nil RangeExpr is empty.
type RangeExpr []Range

// ParseRangeExpr parses a range expression: a single number, "*", or a list in brackets.
// No number may exceed limit. "*" stands for 0 to limit.
func ParseRangeExpr(s string, limit uint32) (RangeExpr, error) {
	e, err := parseRangeExpr(s, limit)
	if err != nil {
		return nil, &FieldError{What: "range expression", Value: s, Err: err}
	}
	return e, nil
}

func parseRangeExpr(s string, limit uint32) (RangeExpr, error) {
	s = strings.Trim(s, blanks)
	if list, ok := strings.CutPrefix(s, "["); ok {
		list, ok = strings.CutSuffix(list, "]")
		if !ok {
			return nil, errBrackets
		}
		return parseRanges(list, limit)
	}
	if s == "*" {
		return RangeExpr{{Lo: 0, Hi: limit, Stride: 1}}, nil
	}
	v, err := parseRangeNumber(s, limit)
	if err != nil {
		return nil, err
	}
	return RangeExpr{{Lo: v, Hi: v, Stride: 1}}, nil
}

var (
	errBrackets   = errors.New("unbalanced brackets")
	errWrongOrder = errors.New("range in wrong order")
	errNoStride   = errors.New("stride is 0")
)

// parseRanges parses the list between the brackets of a range expression.
func parseRanges(list string, limit uint32) (RangeExpr, error) {
	e := make(RangeExpr, 0, strings.Count(list, ",")+1)
	for item := range strings.SplitSeq(list, ",") {
		r, err := parseRange(strings.Trim(item, blanks), limit)
		if err != nil {
			return nil, err
		}
		e = append(e, r)
	}
	return e, nil
}

func parseRange(s string, limit uint32) (Range, error) {
	if s == "*" {
		return Range{Lo: 0, Hi: limit, Stride: 1}, nil
	}
	low, high, isRange := strings.Cut(s, "-")
	lo, err := parseRangeNumber(low, limit)
	if err != nil {
		return Range{}, err
	}
	if !isRange {
		return Range{Lo: lo, Hi: lo, Stride: 1}, nil
	}
	high, step, hasStride := strings.Cut(high, "/")
	hi, err := parseRangeNumber(high, limit)
	if err != nil {
		return Range{}, err
	}
	stride := uint32(1)
	if hasStride {
		if stride, err = parseRangeNumber(step, math.MaxUint32); err != nil {
			return Range{}, err
		}
	}
	switch {
	case lo > hi:
		return Range{}, errWrongOrder
	case stride == 0:
		// Kernels accept a stride of 0 and then divide by it when they match.
		return Range{}, errNoStride
	case lo == hi:
		stride = 1
	}
	return Range{Lo: lo, Hi: hi, Stride: stride}, nil
}

func parseRangeNumber(s string, limit uint32) (uint32, error) {
	s = strings.Trim(s, blanks)
	v, ok := parseAutoBase(s, limit)
	if !ok {
		return 0, fmt.Errorf("%s is not a number 0 to %d", formatValue(s), limit)
	}
	return v, nil
}

// Match reports whether v is in one of the ranges.
func (e RangeExpr) Match(v uint32) bool {
	return slices.ContainsFunc(e, func(r Range) bool { return r.Match(v) })
}

// String returns the expression in canonical form, such as "7", "[1-9/2]" or "[0,5,7]". A
// "*" is printed as its range.
func (e RangeExpr) String() string { return string(e.append(nil)) }

func (e RangeExpr) append(b []byte) []byte {
	if len(e) == 1 && e[0].Lo == e[0].Hi {
		return e[0].append(b)
	}
	return e.appendList(b)
}

// appendList is like append, but with brackets even around a single number.
func (e RangeExpr) appendList(b []byte) []byte {
	b = append(b, '[')
	for i, r := range e {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.append(b)
	}
	return append(b, ']')
}

// Below returns the numbers of e that are less than n, sorted and without duplicates. It
// is used for CPT lists; n is then the number of CPTs of the machine. If e contains n or a
// larger number, Below returns an error. The exception is a range that ends at the largest
// 32-bit number, such as a "*" that was parsed without a limit; its larger numbers are
// ignored.
func (e RangeExpr) Below(n int) ([]int, error) {
	for _, r := range e {
		open := r.Hi == math.MaxUint32
		if int64(r.Lo) >= int64(n) || int64(r.Hi) >= int64(n) && !open {
			return nil, &FieldError{What: "range expression", Value: r, Err: fmt.Errorf("not below %d", n)}
		}
	}
	var list []int
	for v := range n {
		if e.Match(uint32(v)) {
			list = append(list, v)
		}
	}
	return list, nil
}
