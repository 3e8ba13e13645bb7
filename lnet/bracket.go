package lnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bracket shorthand: one text stands for many. A group in brackets stands for each item of
// the group in turn, and several groups multiply (lnetctl 12.2, lnet-wire 3.8). For
// example, "10.0.[1,2].[5-6]" is 10.0.1.5, 10.0.1.6, 10.0.2.5 and 10.0.2.6. The results are
// counted before the first is generated, and generated one at a time. Each is limited to
// maxExpanded bytes.

var (
	// ErrTooMany is returned if a shorthand expands to more texts than the limit.
	ErrTooMany = errors.New("specifies more NIDs than allowed")

	errBracketSet   = errors.New("incomplete bracket set")
	errBracketOrder = errors.New("improper bracket ordering")
	errMissing      = errors.New("number missing in brackets")
	errNotMultiple  = errors.New("range is not a multiple of its stride")
	errLongText     = fmt.Errorf("longer than %d bytes", maxExpanded)
)

// maxExpanded is the maximum length of one expanded text, in bytes. It is a few times what
// the longest NID needs. Without it, each of many results could be as long as the whole
// shorthand.
const maxExpanded = 256

// alternatives are the texts that can stand at one place of a shorthand.
type alternatives []string

// groupParser parses the text between two brackets. before is the text that precedes the
// group. It returns at most limit alternatives.
type groupParser func(before, group string, limit int) (alternatives, error)

// expandBrackets calls yield with each text that s expands to. The last group varies
// fastest. It returns the first error of yield. It returns ErrTooMany, without calling
// yield, if s expands to more than limit texts.
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

// splitGroups splits s into its groups and the texts between them, each of which has one
// alternative. count is the number of texts that s expands to.
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
		// limit/count is what the preceding groups leave for this one.
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

// progression is a range "lo-hi/stride" or "lo-hi" in a group.
type progression struct{ lo, hi, stride uint32 }

// format returns the numbers of p, formatted in the given base. It returns ErrTooMany if
// there are more than limit.
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
