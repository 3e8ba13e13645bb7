package lnet

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pattern says which nets or NIDs a rule is about (selection 6.7):
//
//	pattern    = [ address "@" ] net
//	net        = type | type number | type "*" | type "[" range { "," range } "]"
//	address    = expr "." expr "." expr "." expr     for IP addresses
//	           | expr                                for others
//	           | "*"                                 any
//	expr       = number | "*" | "[" range { "," range } "]"
//	range      = lo | lo "-" hi | lo "-" hi "/" stride
//
// A net without a number has number 0. The zero Pattern is none at all.
type Pattern struct {
	typ     NetType
	numbers RangeExpr
	// address has the expressions of the four octets, or the only one; it is
	// nil for a net.
	address []RangeExpr
}

// PatternMax is the longest text of a pattern, in bytes.
const PatternMax = 4096

const octets = 4

// ParsePattern reads a pattern. Errors are *FieldError.
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
		return fmt.Errorf("net %q: unknown type", s)
	case rest == "":
		rest = "0"
	case p.typ == TypeLO:
		return fmt.Errorf("net %q: lo has no number", s)
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
		return fmt.Errorf("address %q: %d parts where %s has %d", s, len(exprs), p.typ, parts)
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

// parsePatternExpr reads an expression. Numbers are decimal here: what looks octal
// means something else elsewhere, and is refused.
func parsePatternExpr(s string, limit uint32) (RangeExpr, error) {
	inNumber := false
	for k := range len(s) {
		digit := s[k] >= '0' && s[k] <= '9'
		switch {
		case digit && !inNumber && s[k] == '0' && k+1 < len(s) && s[k+1] >= '0' && s[k+1] <= '9':
			return nil, fmt.Errorf("%q: number with a leading zero", s)
		case !digit && !strings.ContainsRune("*[],-/ ", rune(s[k])):
			return nil, fmt.Errorf("%q: %q is not part of an expression", s, s[k])
		}
		inNumber = digit
	}
	return ParseRangeExpr(s, limit)
}

// IsZero tells whether p is no pattern at all.
func (p Pattern) IsZero() bool { return p.typ == 0 }

// HasAddress tells whether p is about NIDs; else it is about nets.
func (p Pattern) HasAddress() bool { return p.address != nil }

// NetType is the type of the nets that p is about, 0 for the zero Pattern.
func (p Pattern) NetType() NetType { return p.typ }

// OneNet is the net that p is about if it is about one alone.
func (p Pattern) OneNet() (_ Net, ok bool) {
	if len(p.numbers) != 1 || p.numbers[0].Lo != p.numbers[0].Hi || p.numbers[0].Lo > math.MaxUint16 {
		return 0, false
	}
	return MakeNet(p.typ, uint16(p.numbers[0].Lo)), true
}

// MatchNet tells whether p's net part covers a net.
func (p Pattern) MatchNet(n Net) bool {
	return p.typ != 0 && n.Type() == p.typ && p.numbers.Match(uint32(n.Number()))
}

// MatchNID tells whether p covers a NID. Without an address it covers all NIDs
// of its nets. Octets never match a large NID, unless they match all.
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

// anyAddress tells whether every part of the address is a wildcard.
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

// Equal tells whether p and o are written alike but for blanks and the form of
// wildcards: the same ranges in the same order (selection 6.3). Sets that are
// equal but written in other ways differ.
func (p Pattern) Equal(o Pattern) bool {
	return p.typ == o.typ && slices.Equal(p.numbers, o.numbers) && slices.EqualFunc(p.address, o.address, slices.Equal[RangeExpr])
}

// String is the pattern in its normal form: a wildcard is the range that it
// stands for, a net number 0 is left out. The zero Pattern is empty.
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

// MarshalText is the pattern in its normal form. It never fails.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePattern, except that an empty text gives the zero
// Pattern. On an error p keeps its value.
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
