package lnet

import (
	"errors"
	"strconv"
	"strings"
)

// NetType says which kind of network driver moves a net's messages, and so
// what its addresses look like (lnet-wire 2.5).
type NetType uint8

// Net types. The numbers left out belonged to drivers that no release since
// 2.10 has. A driver may bring a type of its own, for which any other number
// from 1 to 254 does: it has no name, and its addresses are numbers.
const (
	TypeTCP   NetType = 2
	TypeO2IB  NetType = 5
	TypeLO    NetType = 9
	TypeGNI   NetType = 13
	TypeGIP   NetType = 14
	TypePTLF  NetType = 15
	TypeKFI   NetType = 16
	TypeTOFU  NetType = 17 // reserved, has no name in text
	TypeEFA   NetType = 18
	TypeBXI3F NetType = 19

	// typeAny in a NID makes it the wildcard, whatever else it holds.
	typeAny NetType = 0xff
)

// netNames is in the order in which a name is looked up: the first that is a
// prefix of the text is taken (lnet-wire 2.5, 3.1).
var netNames = [...]struct {
	name string
	typ  NetType
}{
	{"lo", TypeLO},
	{"tcp", TypeTCP},
	{"o2ib", TypeO2IB},
	{"gni", TypeGNI},
	{"gip", TypeGIP},
	{"ptlf", TypePTLF},
	{"kfi", TypeKFI},
	{"efa", TypeEFA},
	{"bxi3f", TypeBXI3F},
}

// name is the type's name in text; empty if it has none.
func (t NetType) name() string {
	for i := range netNames {
		if netNames[i].typ == t {
			return netNames[i].name
		}
	}
	return ""
}

// String is the type's name, or "?17?" for one that has none.
func (t NetType) String() string {
	if s := t.name(); s != "" {
		return s
	}
	return "?" + strconv.Itoa(int(t)) + "?"
}

// IPAddressed tells whether the addresses of such a net are IP addresses.
// Those of the others are numbers.
func (t NetType) IPAddressed() bool {
	return t == TypeTCP || t == TypeO2IB || t == TypeEFA || t == TypeGIP
}

// ipv6 tells whether such a net may have IPv6 addresses too.
func (t NetType) ipv6() bool { return t.IPAddressed() && t != TypeGIP }

// Net is one network of LNet: a type and a number, as 8 and 16 bits of a
// 32-bit value whose highest 8 bits are zero (lnet-wire 2.1).
type Net uint32

const (
	// NetAny is the wildcard.
	NetAny Net = 0xffffffff
	// LoNet is the net of the loopback NID.
	LoNet = Net(TypeLO) << 16

	// maxNetNumber is the largest number of a net.
	maxNetNumber = 0xffff
)

// MakeNet is the net of that type and number.
func MakeNet(t NetType, number uint16) Net { return Net(t)<<16 | Net(number) }

// Type is the net's type.
func (n Net) Type() NetType { return NetType(n >> 16) }

// Number tells nets of one type apart.
func (n Net) Number() uint16 { return uint16(n) }

// String is the net's name as ParseNet reads it: "tcp", "o2ib7". A net of a
// type without a name prints as "<17:3>" (lnet-wire 3.1).
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

// MarshalText is the net's name. It never fails.
func (n Net) MarshalText() ([]byte, error) { return n.AppendText(nil) }

// UnmarshalText is ParseNet. On an error n keeps its value.
func (n *Net) UnmarshalText(text []byte) error {
	v, err := ParseNet(string(text))
	if err != nil {
		return err
	}
	*n = v
	return nil
}

var (
	errUnknownType = errors.New("unknown network type")
	errNetNumber   = errors.New("network number is not a decimal number 0 to 65535")
	errLoNumber    = errors.New("there is only one lo")
)

// ParseNet reads a net's name: the name of a type and a decimal number, which
// is 0 when missing: "tcp", "tcp0", "o2ib7" (lnet-wire 3.1). A number above
// 65535, which kernels let run over into the type, is an error. A net of a type
// without a name is read as it prints, "<17:3>", which kernels do not.
func ParseNet(s string) (Net, error) {
	n, err := parseNet(s, parseDecimal)
	if err != nil {
		return NetAny, &FieldError{What: "net", Value: s, Err: err}
	}
	return n, nil
}

// parseNet is ParseNet with the number read by parse, which gets the largest
// number allowed; in a NID list numbers have other bases.
func parseNet(s string, parse func(string, uint32) (uint32, bool)) (Net, error) {
	if strings.HasPrefix(s, "<") {
		return parseNamelessNet(s)
	}
	t, rest, ok := cutNetType(s)
	if !ok {
		return NetAny, errUnknownType
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

// parseNamelessNet reads "<17:3>". A type that has a name has no second one.
func parseNamelessNet(s string) (Net, error) {
	typ, rest, _ := strings.Cut(s[1:], ":")
	number, end, closed := strings.Cut(rest, ">")
	t, ok := parseDecimal(typ, uint32(typeAny)-1)
	if !ok || t == 0 || !closed || end != "" || NetType(t).name() != "" {
		return NetAny, errUnknownType
	}
	n, ok := parseDecimal(number, maxNetNumber)
	if !ok {
		return NetAny, errNetNumber
	}
	return MakeNet(NetType(t), uint16(n)), nil
}

// cutNetType splits the name of a type off the start of s.
func cutNetType(s string) (t NetType, rest string, ok bool) {
	for i := range netNames {
		if rest, ok := strings.CutPrefix(s, netNames[i].name); ok {
			return netNames[i].typ, rest, true
		}
	}
	return 0, s, false
}

// ParseNetType reads the name of a type, such as "tcp".
func ParseNetType(s string) (NetType, error) {
	t, rest, ok := cutNetType(s)
	if !ok || rest != "" {
		return 0, &FieldError{What: "net type", Value: s, Err: errUnknownType}
	}
	return t, nil
}
