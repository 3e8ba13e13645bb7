package selection

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Descriptor says which nets or NIDs a rule is about (selection 6.7):
//
//	descriptor = [ address "@" ] net
//	net        = type | type number | type "*" | type "[" range { "," range } "]"
//	address    = expr "." expr "." expr "." expr     for IP addresses
//	           | expr                                for others
//	           | "*"                                 any
//	expr       = number | "*" | "[" range { "," range } "]"
//	range      = lo | lo "-" hi | lo "-" hi "/" stride
//
// A net without a number has number 0. The zero Descriptor is none at all.
type Descriptor struct {
	typ     lnet.NetType
	numbers lnet.RangeExpr
	// address has the expressions of the four octets, or the only one; it is
	// nil for a net.
	address []lnet.RangeExpr
}

// DescriptorMax is the longest text of a descriptor, in bytes.
const DescriptorMax = 4096

const octets = 4

// ParseDescriptor reads a descriptor. An error wraps ErrInvalid, or is that of
// the range expression.
func ParseDescriptor(s string) (Descriptor, error) {
	d, err := parseDescriptor(s)
	if err != nil {
		if len(s) > 64 {
			s = s[:64] + "..."
		}
		return Descriptor{}, fmt.Errorf("descriptor %q: %w", s, err)
	}
	return d, nil
}

func parseDescriptor(s string) (Descriptor, error) {
	if len(s) > DescriptorMax {
		return Descriptor{}, fmt.Errorf("longer than %d bytes: %w", DescriptorMax, ErrInvalid)
	}
	address, net, hasAddress := strings.Cut(s, "@")
	if !hasAddress {
		net = s
	}
	var d Descriptor
	if err := d.parseNet(net); err != nil {
		return Descriptor{}, err
	}
	if hasAddress {
		if err := d.parseAddress(address); err != nil {
			return Descriptor{}, err
		}
	}
	return d, nil
}

func (d *Descriptor) parseNet(s string) error {
	rest := s
	known := false
	for n := 1; n <= len(s) && !known; n++ {
		t, err := lnet.ParseNetType(s[:n])
		if known = err == nil; known {
			d.typ, rest = t, s[n:]
		}
	}
	var err error
	switch {
	case !known:
		return fmt.Errorf("net %q: unknown type: %w", s, ErrInvalid)
	case rest == "":
		rest = "0"
	case d.typ == lnet.TypeLO:
		return fmt.Errorf("net %q: lo has no number: %w", s, ErrInvalid)
	}
	if d.numbers, err = parseExpr(rest, math.MaxUint32); err != nil {
		return fmt.Errorf("net %q: %w", s, err)
	}
	return nil
}

func (d *Descriptor) parseAddress(s string) error {
	parts, limit := 1, uint32(math.MaxUint32)
	if d.typ.IPAddressed() {
		parts, limit = octets, math.MaxUint8
		if s == "*" {
			s = "*.*.*.*"
		}
	}
	exprs := strings.Split(s, ".")
	if len(exprs) != parts {
		return fmt.Errorf("address %q: %d parts where %s has %d: %w", s, len(exprs), d.typ, parts, ErrInvalid)
	}
	for _, text := range exprs {
		e, err := parseExpr(text, limit)
		if err != nil {
			return fmt.Errorf("address %q: %w", s, err)
		}
		d.address = append(d.address, e)
	}
	return nil
}

// parseExpr reads an expression. Numbers are decimal here: what looks octal
// means something else elsewhere, and is refused.
func parseExpr(s string, limit uint32) (lnet.RangeExpr, error) {
	inNumber := false
	for k := range len(s) {
		digit := s[k] >= '0' && s[k] <= '9'
		switch {
		case digit && !inNumber && s[k] == '0' && k+1 < len(s) && s[k+1] >= '0' && s[k+1] <= '9':
			return nil, fmt.Errorf("%q: number with a leading zero: %w", s, ErrInvalid)
		case !digit && !strings.ContainsRune("*[],-/ ", rune(s[k])):
			return nil, fmt.Errorf("%q: %q is not part of an expression: %w", s, s[k], ErrInvalid)
		}
		inNumber = digit
	}
	e, err := lnet.ParseRangeExpr(s, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return e, nil
}

// IsZero tells whether d is no descriptor at all.
func (d Descriptor) IsZero() bool { return d.typ == 0 }

// HasAddress tells whether d is about NIDs; else it is about nets.
func (d Descriptor) HasAddress() bool { return d.address != nil }

// MatchNet tells whether d's net part covers a net.
func (d Descriptor) MatchNet(n lnet.Net) bool {
	return d.typ != 0 && n.Type() == d.typ && d.numbers.Match(uint32(n.Number()))
}

// MatchNID tells whether d covers a NID. Without an address it covers all NIDs
// of its nets. Octets never match a large NID, unless they match all.
func (d Descriptor) MatchNID(n lnet.NID) bool {
	switch {
	case !d.MatchNet(n.Net()):
		return false
	case d.address == nil:
		return true
	case n.IsLarge():
		return d.anyAddress()
	case len(d.address) == 1:
		return d.address[0].Match(n.Number())
	}
	v := n.Number()
	for k, e := range d.address {
		if !e.Match(v >> (8 * (octets - 1 - k)) & math.MaxUint8) {
			return false
		}
	}
	return true
}

// anyAddress tells whether every part of the address is a wildcard.
func (d Descriptor) anyAddress() bool {
	limit := uint32(math.MaxUint32)
	if d.typ.IPAddressed() {
		limit = math.MaxUint8
	}
	for _, e := range d.address {
		if !slices.Equal(e, lnet.RangeExpr{{Lo: 0, Hi: limit, Stride: 1}}) {
			return false
		}
	}
	return true
}

// Equal tells whether d and o are written alike but for blanks and the form of
// wildcards: the same ranges in the same order (selection 6.3). Sets that are
// equal but written in other ways differ.
func (d Descriptor) Equal(o Descriptor) bool {
	return d.typ == o.typ && slices.Equal(d.numbers, o.numbers) && slices.EqualFunc(d.address, o.address, slices.Equal[lnet.RangeExpr])
}

// String is the descriptor in its normal form: a wildcard is the range that it
// stands for, a net number 0 is left out. The zero Descriptor is empty.
func (d Descriptor) String() string {
	if d.IsZero() {
		return ""
	}
	var b strings.Builder
	for k, e := range d.address {
		if k > 0 {
			b.WriteByte('.')
		}
		b.WriteString(e.String())
	}
	if d.address != nil {
		b.WriteByte('@')
	}
	b.WriteString(d.typ.String())
	if !slices.Equal(d.numbers, lnet.RangeExpr{{Lo: 0, Hi: 0, Stride: 1}}) {
		b.WriteString(d.numbers.String())
	}
	return b.String()
}

// MarshalText is the descriptor in its normal form. It never fails.
func (d Descriptor) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is ParseDescriptor, except that an empty text gives the zero
// Descriptor. On an error d keeps its value.
func (d *Descriptor) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Descriptor{}
		return nil
	}
	v, err := ParseDescriptor(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
