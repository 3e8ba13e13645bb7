package lnet

import (
	"errors"
	"strconv"
	"strings"
)

// Net is an LNet network: a type in bits 23 to 16 and a number in bits 15 to 0. Bits 31 to
// 24 are zero (lnet-wire 2.1).
type Net uint32

const (
	// NetAny is the wildcard, which stands for every net.
	NetAny Net = 0xffffffff
	// LoNet is the net of the loopback NID.
	LoNet = Net(TypeLO) << 16

	// maxNetNumber is the largest number of a net.
	maxNetNumber = 0xffff
)

// MakeNet returns the net with the given type and number.
func MakeNet(t NetType, number uint16) Net { return Net(t)<<16 | Net(number) }

// Type returns the net's type.
func (n Net) Type() NetType { return NetType(n >> 16) }

// Number returns the net's number, which distinguishes nets of one type.
func (n Net) Number() uint16 { return uint16(n) }

// String returns the net's name in the form that ParseNet accepts, such as "tcp" or
// "o2ib7". If the type has no name, the result looks like "<17:3>" (lnet-wire 3.1).
func (n Net) String() string {
	b, _ := n.AppendText(nil)
	return string(b)
}

// AppendText appends what String returns. It never fails.
func (n Net) AppendText(b []byte) ([]byte, error) {
	name := n.Type().name()
	if name == "" {
		b = append(b, '<')
		b = strconv.AppendUint(b, uint64(n.Type()), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(n.Number()), 10)
		return append(b, '>'), nil
	}
	b = append(b, name...)
	if n.Number() != 0 {
		b = strconv.AppendUint(b, uint64(n.Number()), 10)
	}
	return b, nil
}

// MarshalText returns the net's name. It never fails.
func (n Net) MarshalText() ([]byte, error) { return n.AppendText(nil) }

// UnmarshalText parses text with ParseNet. On an error n is unchanged.
func (n *Net) UnmarshalText(text []byte) error {
	v, err := ParseNet(string(text))
	if err != nil {
		return err
	}
	*n = v
	return nil
}

var (
	errNetNumber = errors.New("network number is not a decimal number 0 to 65535")
	errLoNumber  = errors.New("lo cannot have a number other than 0")
)

// ParseNet parses the name of a net: a type name and an optional decimal number, by default
// 0, such as "tcp", "tcp0" or "o2ib7" (lnet-wire 3.1). It rejects a number above 65535,
// which in kernels overflows into the type. It accepts "<17:3>" for a net whose type has no
// name; kernels do not.
func ParseNet(s string) (Net, error) {
	n, err := parseNet(s, parseDecimal)
	if err != nil {
		return NetAny, &FieldError{What: "net", Value: s, Err: err}
	}
	return n, nil
}

// parseNet is like ParseNet, but parses the number of the net with parse, whose second
// argument is the largest number allowed. In a NID list, numbers may be octal or
// hexadecimal.
func parseNet(s string, parse func(string, uint32) (uint32, bool)) (Net, error) {
	if strings.HasPrefix(s, "<") {
		return parseNamelessNet(s)
	}
	t, rest, ok := cutNetType(s)
	if !ok {
		return NetAny, ErrUnknownType
	}
	if rest == "" {
		return MakeNet(t, 0), nil
	}
	if t == TypeLO {
		return NetAny, errLoNumber
	}
	number, ok := parse(rest, maxNetNumber)
	if !ok {
		return NetAny, errNetNumber
	}
	return MakeNet(t, uint16(number)), nil
}

// parseNamelessNet parses text such as "<17:3>". It rejects a type to which LNet gives a name.
func parseNamelessNet(s string) (Net, error) {
	typ, rest, _ := strings.Cut(s[1:], ":")
	number, end, closed := strings.Cut(rest, ">")
	t, ok := parseDecimal(typ, uint32(typeAny)-1)
	if !ok || t == 0 || !closed || end != "" || nameOf(lnetTypes[:], NetType(t)) != "" {
		return NetAny, ErrUnknownType
	}
	n, ok := parseDecimal(number, maxNetNumber)
	if !ok {
		return NetAny, errNetNumber
	}
	return MakeNet(NetType(t), uint16(n)), nil
}
