package lnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NIDList is a set of NIDs, written as patterns (lnet-wire 3.5):
//
//	nidlist   = nidrange { " " nidrange }
//	nidrange  = addrrange "@" net
//	addrrange = "*" | netmask | ipv6 | ipv4range | numrange
//	netmask   = ipv4 "/" 1..32 | ipv6 "/" 1..128
//	ipv4range = numrange "." numrange "." numrange "." numrange
//
// with the numrange of RangeExpr: "192.168.0.[1-10/2]@tcp 10.0.0.0/8@o2ib1
// *@kfi". The zero list is empty and cannot be written. A list is not changed
// after it was parsed, so that any number of goroutines may match.
type NIDList struct {
	nets  []netPatterns // in the order in which they first occur
	index map[Net]int   // where in nets a net is
}

// netPatterns are the patterns of one net.
type netPatterns struct {
	net Net
	// all stands for "*", which makes other patterns meaningless: there are
	// none then.
	all    bool
	masks  []netip.Prefix
	ranges []addressRange
}

// addressRange is the ranges of the four octets of an IPv4 address, or of the
// number that another address is.
type addressRange []RangeExpr

var (
	errEmptyList = errors.New("empty")
	errNoNet     = errors.New("no @net")
	errOctets    = errors.New("address is not four ranges joined by dots")
	errMask      = errors.New("not an IPv4 or IPv6 address with a prefix length")
)

// ParseNIDList reads a list of patterns. What kernels take but cannot use is an
// error: a stride of 0 and a net number above 65535.
func ParseNIDList(s string) (NIDList, error) {
	l := NIDList{index: make(map[Net]int)}
	for item := range strings.SplitSeq(s, " ") {
		if item == "" {
			continue
		}
		if err := l.parse(item); err != nil {
			return NIDList{}, &FieldError{What: "NID list", Value: item, Err: err}
		}
	}
	if len(l.nets) == 0 {
		return NIDList{}, &FieldError{What: "NID list", Value: s, Err: errEmptyList}
	}
	return l, nil
}

// parse adds one nidrange.
func (l *NIDList) parse(item string) error {
	address, name, found := strings.Cut(item, "@")
	if !found {
		return errNoNet
	}
	if strings.Contains(name, "@") {
		return errManyAt
	}
	net, err := parseNet(name, parseAutoBase)
	if err != nil {
		return err
	}
	p := l.patterns(net)
	switch {
	case address == "*":
		*p = netPatterns{net: net, all: true}
	case isMask(address):
		mask, err := parseMask(address)
		if err != nil {
			return err
		}
		if !p.all {
			p.masks = append(p.masks, mask)
		}
	default:
		r, err := parseAddressRange(address, net.Type().IPAddressed())
		if err != nil {
			return err
		}
		if !p.all {
			p.ranges = append(p.ranges, r)
		}
	}
	return nil
}

// patterns are those of the net, new ones if there are none yet.
func (l *NIDList) patterns(net Net) *netPatterns {
	i, ok := l.index[net]
	if !ok {
		i = len(l.nets)
		l.index[net] = i
		l.nets = append(l.nets, netPatterns{net: net})
	}
	return &l.nets[i]
}

// isMask tells netmasks and IPv6 addresses from ranges: the slash of a range
// stands within brackets.
func isMask(address string) bool {
	if strings.Contains(address, ":") {
		return true
	}
	slash := strings.LastIndexByte(address, '/')
	return slash >= 0 && !strings.Contains(address[slash:], "]")
}

// parseMask reads a netmask; an IPv6 address without a length has all of it.
func parseMask(s string) (netip.Prefix, error) {
	text, length, hasLength := strings.Cut(s, "/")
	var ip netip.Addr
	if strings.Contains(text, ":") {
		var err error
		if ip, err = netip.ParseAddr(text); err != nil || ip.Zone() != "" {
			return netip.Prefix{}, errMask
		}
	} else {
		v, ok := parseDottedQuad(text)
		if !ok {
			return netip.Prefix{}, errMask
		}
		ip = NIDFromNumber(MakeNet(TypeTCP, 0), v).IP()
	}
	bits := ip.BitLen()
	if hasLength {
		v, ok := parseDecimal(length, uint32(ip.BitLen()))
		if !ok || v == 0 {
			return netip.Prefix{}, fmt.Errorf("prefix length is not 1 to %d", ip.BitLen())
		}
		bits = int(v)
	}
	return netip.PrefixFrom(ip, bits), nil
}

func parseAddressRange(s string, ip bool) (addressRange, error) {
	if !ip {
		e, err := parseRangeExpr(s, ^uint32(0))
		return addressRange{e}, err
	}
	octets, err := parseIPPattern(s)
	return octets[:], err
}

// Match tells whether n is in the list: one of the patterns of exactly its net
// matches its address. Ranges never match a large NID, whose first bytes
// kernels take for an IPv4 address; netmasks match only on tcp and o2ib, as
// they do there.
func (l NIDList) Match(n NID) bool {
	i, ok := l.index[n.Net()]
	return ok && l.nets[i].match(n)
}

func (p *netPatterns) match(n NID) bool {
	if p.all {
		return true
	}
	if p.net.Type().masks() {
		ip := n.IP()
		if slices.ContainsFunc(p.masks, func(m netip.Prefix) bool { return m.Contains(ip) }) {
			return true
		}
	}
	if n.IsLarge() {
		return false
	}
	return slices.ContainsFunc(p.ranges, func(r addressRange) bool { return r.match(n.Number()) })
}

func (r addressRange) match(v uint32) bool {
	if len(r) == 1 {
		return r[0].Match(v)
	}
	return r[0].Match(v>>24) && r[1].Match(v>>16&0xff) && r[2].Match(v>>8&0xff) && r[3].Match(v&0xff)
}

// String is the list in canonical form: by net, netmasks before ranges, one
// space between patterns. Of a net with "*" only that is left.
func (l NIDList) String() string {
	var b []byte
	for i := range l.nets {
		b = l.nets[i].append(b)
	}
	return strings.TrimSuffix(string(b), " ")
}

// append appends the patterns with a space behind each.
func (p *netPatterns) append(b []byte) []byte {
	end := "@" + p.net.String() + " "
	if p.all {
		b = append(b, '*')
		return append(b, end...)
	}
	var singles []byte
	for _, m := range p.masks {
		switch {
		case !m.IsSingleIP(), m.Addr().Is4() && !p.net.Type().masks():
			// An IPv4 address without its length is a range, which would match
			// where a mask never does.
			b = append(m.AppendTo(b), end...)
		case m.Addr().Is4():
			// Reads back as a range, so that it belongs next to those.
			singles = append(m.Addr().AppendTo(singles), end...)
		default:
			b = append(m.Addr().AppendTo(b), end...)
		}
	}
	b = append(b, singles...)
	for _, r := range p.ranges {
		for i, e := range r {
			if i > 0 {
				b = append(b, '.')
			}
			b = e.append(b)
		}
		b = append(b, end...)
	}
	return b
}

// MarshalText is the list as text. It never fails.
func (l NIDList) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is ParseNIDList. On an error l keeps its value.
func (l *NIDList) UnmarshalText(text []byte) error {
	v, err := ParseNIDList(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}
