package lnet

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pattern is a set of nets or NIDs that a selection rule applies to (selection 6.7):
//
//	pattern    = [ address "@" ] net
//	net        = type | type number | type "*" | type "[" range { "," range } "]"
//	address    = expr "." expr "." expr "." expr     for IP addresses
//	           | expr                                for others
//	           | "*"                                 any
//	expr       = number | "*" | "[" range { "," range } "]"
//	range      = lo | lo "-" hi | lo "-" hi "/" stride
//
// A net without a number has number 0. The zero Pattern matches nothing.
type Pattern struct {
	typ     NetType
	numbers RangeExpr
	// address holds one expression for each of the four octets of an IP address, or one for a
	// number. It is nil if the pattern matches nets and not NIDs.
	address []RangeExpr
}

// PatternMax is the maximum length of a pattern, in bytes.
const PatternMax = 4096

const octets = 4

// ParsePattern parses a pattern. Any error is a *FieldError.
func ParsePattern(s string) (Pattern, error) {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, &FieldError{What: "pattern", Value: s, Err: err}
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
	if len(s) > PatternMax {
		return Pattern{}, fmt.Errorf("longer than %d bytes", PatternMax)
	}
	address, net, hasAddress := strings.Cut(s, "@")
	if !hasAddress {
		net = s
	}
	var p Pattern
	if err := p.parseNet(net); err != nil {
		return Pattern{}, err
	}
	if hasAddress {
		if err := p.parseAddress(address); err != nil {
			return Pattern{}, err
		}
	}
	return p, nil
}

func (p *Pattern) parseNet(s string) error {
	rest := s
	known := false
	for n := 1; n <= len(s) && !known; n++ {
		t, err := ParseNetType(s[:n])
		if known = err == nil; known {
			p.typ, rest = t, s[n:]
		}
	}
	var err error
	switch {
	case !known:
		return fmt.Errorf("net %q: %w", s, ErrUnknownType)
	case rest == "":
		rest = "0"
	case p.typ == TypeLO:
		return fmt.Errorf("net %q: lo cannot have a number", s)
	}
	if p.numbers, err = parsePatternExpr(rest, math.MaxUint32); err != nil {
		return fmt.Errorf("net %q: %w", s, err)
	}
	return nil
}

func (p *Pattern) parseAddress(s string) error {
	parts, limit := 1, uint32(math.MaxUint32)
	if p.typ.IPAddressed() {
		parts, limit = octets, math.MaxUint8
		if s == "*" {
			s = "*.*.*.*"
		}
	}
	exprs := strings.Split(s, ".")
	if len(exprs) != parts {
		return fmt.Errorf("address %q has %d parts, but %s needs %d", s, len(exprs), p.typ, parts)
	}
	for _, text := range exprs {
		e, err := parsePatternExpr(text, limit)
		if err != nil {
			return fmt.Errorf("address %q: %w", s, err)
		}
		p.address = append(p.address, e)
	}
	return nil
}

// parsePatternExpr parses a range expression in which all numbers are decimal. It rejects
// leading zeros, because they mean octal in other texts.
func parsePatternExpr(s string, limit uint32) (RangeExpr, error) {
	inNumber := false
	for k := range len(s) {
		digit := s[k] >= '0' && s[k] <= '9'
		switch {
		case digit && !inNumber && s[k] == '0' && k+1 < len(s) && s[k+1] >= '0' && s[k+1] <= '9':
			return nil, fmt.Errorf("%q: numbers cannot have leading zeros", s)
		case !digit && !strings.ContainsRune("*[],-/ ", rune(s[k])):
			return nil, fmt.Errorf("%q: unexpected character %q", s, s[k])
		}
		inNumber = digit
	}
	return ParseRangeExpr(s, limit)
}

// IsZero reports whether p is the zero Pattern.
func (p Pattern) IsZero() bool { return p.typ == 0 }

// HasAddress reports whether p is a pattern for NIDs. Otherwise it is a pattern for nets.
func (p Pattern) HasAddress() bool { return p.address != nil }

// NetType returns the type of the nets that p matches, or 0 for the zero Pattern.
func (p Pattern) NetType() NetType { return p.typ }

// OneNet returns the net that p matches, and true, if p can match only a single net.
func (p Pattern) OneNet() (_ Net, ok bool) {
	if len(p.numbers) != 1 || p.numbers[0].Lo != p.numbers[0].Hi || p.numbers[0].Lo > math.MaxUint16 {
		return 0, false
	}
	return MakeNet(p.typ, uint16(p.numbers[0].Lo)), true
}

// MatchNet reports whether p matches the net n, or NIDs on n.
func (p Pattern) MatchNet(n Net) bool {
	return p.typ != 0 && n.Type() == p.typ && p.numbers.Match(uint32(n.Number()))
}

// MatchNID reports whether p matches n. A pattern for nets matches all NIDs on these nets.
// A pattern for NIDs matches a large NID only if each part of its address is a wildcard.
func (p Pattern) MatchNID(n NID) bool {
	switch {
	case !p.MatchNet(n.Net()):
		return false
	case p.address == nil:
		return true
	case n.IsLarge():
		return p.anyAddress()
	}
	return matchRanges(p.address, n.Number())
}

// anyAddress reports whether each part of the pattern's address is a wildcard.
func (p Pattern) anyAddress() bool {
	limit := uint32(math.MaxUint32)
	if p.typ.IPAddressed() {
		limit = math.MaxUint8
	}
	for _, e := range p.address {
		if !slices.Equal(e, RangeExpr{{Lo: 0, Hi: limit, Stride: 1}}) {
			return false
		}
	}
	return true
}

// Equal reports whether p and o have the same ranges in the same order (selection 6.3).
// Blanks and the form in which wildcards were written do not matter. Patterns for the same
// set that have different ranges are not equal.
func (p Pattern) Equal(o Pattern) bool {
	return p.typ == o.typ && slices.Equal(p.numbers, o.numbers) && slices.EqualFunc(p.address, o.address, slices.Equal[RangeExpr])
}

// String returns the pattern in its normal form, in which wildcards are ranges and the net
// number 0 is omitted. For the zero Pattern it returns an empty string.
func (p Pattern) String() string {
	if p.IsZero() {
		return ""
	}
	var b strings.Builder
	for k, e := range p.address {
		if k > 0 {
			b.WriteByte('.')
		}
		b.WriteString(e.String())
	}
	if p.address != nil {
		b.WriteByte('@')
	}
	b.WriteString(p.typ.String())
	if !slices.Equal(p.numbers, RangeExpr{{Lo: 0, Hi: 0, Stride: 1}}) {
		b.WriteString(p.numbers.String())
	}
	return b.String()
}

// MarshalText returns the pattern in its normal form. It never fails.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses text with ParsePattern, except that an empty text gives the zero
// Pattern. On an error p is unchanged.
func (p *Pattern) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Pattern{}
		return nil
	}
	v, err := ParsePattern(string(text))
	if err != nil {
		return err
	}
	*p = v
	return nil
}
