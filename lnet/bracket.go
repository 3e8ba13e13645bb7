package lnet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Some texts are shorthand for many: groups in brackets stand for one text for
// each of their items, and several groups multiply (lnetctl 12.2, lnet-wire
// 3.8). "10.0.[1,2].[5-6]" is 10.0.1.5, 10.0.1.6, 10.0.2.5 and 10.0.2.6. The
// results are counted before any of them is made, and made one by one; none may
// be longer than any NID is.

var (
	// ErrTooMany says that a shorthand stands for more than is allowed.
	ErrTooMany = errors.New("specifies more NIDs than allowed")

	errBracketSet   = errors.New("incomplete bracket set")
	errBracketOrder = errors.New("improper bracket ordering")
	errMissing      = errors.New("number missing in brackets")
	errNotMultiple  = errors.New("range is not a multiple of its stride")
	errLongText     = fmt.Errorf("longer than %d bytes", maxExpanded)
)

// maxExpanded is how long a text may be that a shorthand stands for, in bytes: a
// few times what the longest NID needs. Else each of many results could be as
// long as all of the shorthand.
const maxExpanded = 256

// alternatives are the texts that stand at one place of a shorthand.
type alternatives []string

// groupParser reads what stands between two brackets; before is the text that
// precedes them. It gives no more than limit alternatives.
type groupParser func(before, group string, limit int) (alternatives, error)

// expandBrackets calls yield with each text that s is shorthand for, in the
// order in which nested loops count: the last group runs fastest. It returns
// yield's first error; ErrTooMany before any call if there are more than limit
// texts.
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

// splitGroups splits s into its groups and the texts between them, each of
// which has one alternative, and counts what s is shorthand for.
func splitGroups(s string, limit int, parse groupParser) (places []alternatives, count int, err error) {
	count = 1
	longest := 0 // of the texts so far
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
		// What the groups so far leave for this one to multiply by.
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

// longest is the length of the longest of the texts.
func (a alternatives) longest() int {
	n := 0
	for _, s := range a {
		n = max(n, len(s))
	}
	return n
}

// progression is a "lo-hi/stride" or "lo-hi" of a group.
type progression struct{ lo, hi, stride uint32 }

// texts are its numbers in that base.
func (p progression) texts(base, limit int) (alternatives, error) {
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

// parseProgression reads a number, "lo-hi" or "lo-hi/stride" with digits of
// that base.
func parseProgression(s string, base int) (p progression, err error) {
	number := func(s string) uint32 {
		v, ok := parseBase(s, base, math.MaxUint32)
		switch {
		case err != nil || ok:
		case s == "":
			err = errMissing
		default:
			err = fmt.Errorf("%s is not a number of base %d", shown(s), base)
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
