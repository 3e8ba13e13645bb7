package lnet

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// anyText is the text of the wildcard NID.
const anyText = "<?>"

// String returns n in the form that ParseNID accepts, such as "10.0.0.1@tcp",
// "2001:db8::10@tcp1" or "4660@kfi" (lnet-wire 3.3). For the wildcard it returns "<?>",
// and for the zero NID an empty string. If the net type has no name, the address is a
// hexadecimal number, as in "1f@<17:0>". A large address that is not an IP address is
// printed as four hexadecimal numbers joined by colons.
func (n NID) String() string {
	b, _ := n.AppendText(nil)
	return string(b)
}

// AppendText appends the result of String. It never fails.
func (n NID) AppendText(b []byte) ([]byte, error) {
	switch {
	case n.IsZero():
		return b, nil
	case n.IsAny():
		return append(b, anyText...), nil
	}
	b = n.appendAddress(b)
	b = append(b, '@')
	return n.Net().AppendText(b)
}

func (n NID) appendAddress(b []byte) []byte {
	t := n.Net().Type()
	if n.IsLarge() {
		if t.ipv6() {
			return n.IP().AppendTo(b)
		}
		a := n.addr16()
		for i := 0; i < len(a); i += 4 {
			if i > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendUint(b, uint64(binary.BigEndian.Uint32(a[i:])), 16)
		}
		return b
	}
	switch {
	case t.IPAddressed():
		return n.IP().AppendTo(b)
	case t.name() == "":
		return strconv.AppendUint(b, uint64(n.Number()), 16)
	}
	return strconv.AppendUint(b, uint64(n.Number()), 10)
}

// MarshalText returns n as text, empty for the zero NID. It never fails.
func (n NID) MarshalText() ([]byte, error) { return n.AppendText(nil) }

// UnmarshalText parses text with ParseNID, except that an empty text gives the zero NID. On
// an error n is unchanged.
func (n *NID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*n = NID{}
		return nil
	}
	v, err := ParseNID(string(text))
	if err != nil {
		return err
	}
	*n = v
	return nil
}

var (
	errDottedQuad = errors.New("address is not four decimal numbers 0 to 255 joined by dots")
	errIPv6       = errors.New("address is not an IPv6 address (brackets and zones are not allowed)")
	errNumber     = errors.New("address is not a number of 32 bits, decimal or hexadecimal after 0x")
	errHex        = errors.New("address is not a hexadecimal number of 32 bits, without 0x")
	errManyAt     = errors.New("more than one @")
)

// ParseNID parses ADDRESS[@NET]. The default net is tcp (lnet-wire 3.2). The address is an
// IP address without brackets or zone, or a number if the net's addresses are numbers. For
// lo it may be any text. "<?>" is the wildcard; "*" is an error. ParseNID accepts all
// results of String except the empty one, including forms that kernels print but do not
// accept (lnet-wire 3.3). It does not resolve host names.
func ParseNID(s string) (NID, error) {
	if s == anyText {
		return AnyNID, nil
	}
	n, err := parseNID(s)
	if err != nil {
		return NID{}, &FieldError{What: "NID", Value: s, Err: err}
	}
	return n, nil
}

func parseNID(s string) (NID, error) {
	address, name, found := strings.Cut(s, "@")
	net := MakeNet(TypeTCP, 0)
	if found {
		if strings.Contains(name, "@") {
			return NID{}, errManyAt
		}
		var err error
		if net, err = parseNet(name, parseDecimal); err != nil {
			return NID{}, err
		}
	}
	t, nameless := net.Type(), strings.HasPrefix(name, "<") // or t has got its name after the text was written
	switch {
	case t == TypeLO:
		return LoopbackNID, nil
	case t.ipv6() && !nameless && strings.Contains(address, ":"):
		ip, err := netip.ParseAddr(address)
		if err != nil || ip.Zone() != "" {
			return NID{}, errIPv6
		}
		return NIDFromIP(net, ip), nil
	case t.IPAddressed() && !nameless:
		v, ok := parseDottedQuad(address)
		if !ok {
			return NID{}, errDottedQuad
		}
		return NIDFromNumber(net, v), nil
	case strings.Contains(address, ":"):
		return parseWords(net, address)
	}
	parse, invalid := parseAddress, errNumber
	if nameless {
		parse, invalid = parseHex, errHex
	}
	v, ok := parse(address, ^uint32(0))
	if !ok {
		return NID{}, invalid
	}
	return NIDFromNumber(net, v), nil
}

// parseWords parses a large NID whose address is not an IP address: four hexadecimal
// numbers joined by colons.
func parseWords(net Net, address string) (NID, error) {
	var a [16]byte
	for i := 0; i < len(a); i += 4 {
		word, rest, found := strings.Cut(address, ":")
		v, ok := parseHex(word, ^uint32(0))
		if !ok || found != (i < len(a)-4) {
			return NID{}, errNumber
		}
		binary.BigEndian.PutUint32(a[i:], v)
		address = rest
	}
	return NIDFromIP(net, netip.AddrFrom16(a)), nil
}

// parseDottedQuad parses an IPv4 address: exactly four numbers joined by dots. Numbers
// with leading zeros are decimal too.
func parseDottedQuad(s string) (uint32, bool) {
	var v uint32
	for i := range 4 {
		part, rest, found := strings.Cut(s, ".")
		if found != (i < 3) || len(part) > 3 {
			return 0, false
		}
		octet, ok := parseDecimal(part, 255)
		if !ok {
			return 0, false
		}
		v = v<<8 | octet
		s = rest
	}
	return v, true
}
