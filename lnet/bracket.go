package lnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bracket shorthand: a text with groups in brackets stands for several texts, one for each
// combination of items of the groups (lnetctl 12.2, lnet-wire 3.8). For example,
// "10.0.[1,2].[5-6]" stands for 10.0.1.5, 10.0.1.6, 10.0.2.5 and 10.0.2.6. The results are
// counted before the first one is generated. Each is limited to maxExpanded bytes.

var (
	// ErrTooMany means that a bracket shorthand stands for more texts than the limit.
	ErrTooMany = errors.New("specifies more NIDs than allowed")

	errBracketSet   = errors.New("incomplete bracket set")
	errBracketOrder = errors.New("improper bracket ordering")
	errMissing      = errors.New("number missing in brackets")
	errNotMultiple  = errors.New("range is not a multiple of its stride")
	errLongText     = fmt.Errorf("longer than %d bytes", maxExpanded)
)

// maxExpanded is the maximum length of one expanded text, in bytes. It is a few times the
// length of the longest NID. Without this limit, the expansion of a long shorthand with
// many results could need any amount of memory.
const maxExpanded = 256

// alternatives are the texts for which one part of a shorthand stands.
type alternatives []string

// groupParser parses the text between two brackets and returns the alternatives that the
// group stands for. before is the text before the group. If there are more than limit
// alternatives, it returns ErrTooMany.
type groupParser func(before, group string, limit int) (alternatives, error)

// expandBrackets calls yield with each text for which s stands. The last group varies
// fastest. If yield returns an error, expandBrackets stops and returns it. If s stands for
// more than limit texts, expandBrackets returns ErrTooMany without calling yield.
func expandBrackets(s string, limit int, parse groupParser, yield func(string) error) error {
	places, count, err := splitGroups(s, limit, parse)
	if err != nil {
		return err
	}
	if count > limit {
		return ErrTooMany
	}
	for i := range count {
		var text strings.Builder
		weight := count
		for _, a := range places {
			weight /= len(a)
			text.WriteString(a[i/weight%len(a)])
		}
		if err := yield(text.String()); err != nil {
			return err
		}
	}
	return nil
}

// splitGroups splits s into its groups and the texts between them. places has the
// alternatives of each part; a text between groups has one. count is the number of texts
// for which s stands.
func splitGroups(s string, limit int, parse groupParser) (places []alternatives, count int, err error) {
	count = 1
	longest := 0 // length of the longest expansion so far
	for rest := s; rest != ""; {
		open := strings.IndexAny(rest, "[]")
		if open < 0 {
			open = len(rest)
		}
		if longest += open; longest > maxExpanded {
			return nil, 0, errLongText
		}
		if open == len(rest) {
			return append(places, alternatives{rest}), count, nil
		}
		if rest[open] == ']' {
			return nil, 0, errBracketOrder
		}
		group := rest[open+1:]
		end := strings.IndexAny(group, "[]")
		switch {
		case end < 0:
			return nil, 0, errBracketSet
		case group[end] == '[':
			return nil, 0, errBracketOrder
		}
		before := s[:len(s)-len(group)-1]
		// With count combinations of the preceding groups, this group may have limit/count
		// alternatives.
		a, err := parse(before, group[:end], limit/count)
		if err != nil {
			return nil, 0, err
		}
		count *= len(a)
		longest += a.longest()
		places = append(places, alternatives{rest[:open]}, a)
		rest = group[end+1:]
	}
	return places, count, nil
}

// longest returns the length of the longest of the texts, in bytes.
func (a alternatives) longest() int {
	n := 0
	for _, s := range a {
		n = max(n, len(s))
	}
	return n
}

// progression is a range of numbers in a group, "lo-hi/stride" or "lo-hi".
type progression struct{ lo, hi, stride uint32 }

// format returns the numbers of p as texts in the given base. It returns ErrTooMany if
// there are more than limit numbers.
func (p progression) format(base, limit int) (alternatives, error) {
	n := uint64(p.hi-p.lo)/uint64(p.stride) + 1
	if n > uint64(max(limit, 0)) {
		return nil, ErrTooMany
	}
	a := make(alternatives, n)
	for i := range a {
		a[i] = strconv.FormatUint(uint64(p.lo)+uint64(i)*uint64(p.stride), base)
	}
	return a, nil
}

// parseProgression parses a number, "lo-hi" or "lo-hi/stride", with digits of the given
// base.
func parseProgression(s string, base int) (p progression, err error) {
	number := func(s string) uint32 {
		v, ok := parseBase(s, base, math.MaxUint32)
		switch {
		case err != nil || ok:
		case s == "":
			err = errMissing
		default:
			err = fmt.Errorf("%s is not a number of base %d", formatValue(s), base)
		}
		return v
	}
	low, high, isRange := strings.Cut(s, "-")
	p = progression{lo: number(low), stride: 1}
	p.hi = p.lo
	if isRange {
		high, step, hasStride := strings.Cut(high, "/")
		p.hi = number(high)
		if hasStride {
			p.stride = number(step)
		}
	}
	switch {
	case err != nil:
		return progression{}, err
	case p.lo > p.hi:
		return progression{}, errWrongOrder
	case p.stride == 0:
		return progression{}, errNoStride
	}
	return p, nil
}
