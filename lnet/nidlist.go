package lnet

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// NIDList is a set of NIDs, grouped by net (lnet-wire 3.5). The syntax is that of Lustre's
// NID lists:
//
//	nidlist   = nidrange { " " nidrange }
//	nidrange  = addrrange "@" net
//	addrrange = "*" | netmask | expr "." expr "." expr "." expr | expr
//	netmask   = IPv4 address "/" 1..32 | IPv6 address [ "/" 1..128 ]
//
// expr is a range expression (see RangeExpr). All numbers, including that of the net, may
// be hexadecimal or octal. The zero NIDList is empty.
type NIDList struct {
	nets []nidsOfNet
}

// nidsOfNet is the part of a NIDList for one net.
type nidsOfNet struct {
	net    Net
	all    bool
	masks  []netip.Prefix
	ranges [][]RangeExpr // each element has one expression for each octet of an IPv4 address, or one for a number
}

var (
	errNoNIDs    = errors.New("contains no NIDs")
	errNoNet     = errors.New("net is missing: expected ADDRESS@NET")
	errMaskWidth = errors.New("prefix length must be at least 1")
)

// ParseNIDList parses a list of NIDs. Any error is a *FieldError.
func ParseNIDList(s string) (NIDList, error) {
	var l NIDList
	for item := range strings.SplitSeq(s, " ") {
		if item == "" {
			continue
		}
		if err := l.add(item); err != nil {
			return NIDList{}, &FieldError{What: "NID list", Value: item, Err: err}
		}
	}
	if len(l.nets) == 0 {
		return NIDList{}, &FieldError{What: "NID list", Value: s, Err: errNoNIDs}
	}
	return l, nil
}

// add adds one nidrange to the list.
func (l *NIDList) add(item string) error {
	address, name, ok := strings.Cut(item, "@")
	if !ok {
		return errNoNet
	}
	n, err := parseNet(strings.Trim(name, blanks), parseAutoBase)
	if err != nil {
		return err
	}
	k := slices.IndexFunc(l.nets, func(o nidsOfNet) bool { return o.net == n })
	if k < 0 {
		k = len(l.nets)
		l.nets = append(l.nets, nidsOfNet{net: n})
	}
	return l.nets[k].add(strings.Trim(address, blanks))
}

func (o *nidsOfNet) add(address string) error {
	switch {
	case address == "*":
		o.all = true
		return nil
	case strings.Contains(address, ":") || strings.LastIndexByte(address, '/') > strings.LastIndexByte(address, ']'):
		mask, err := parseNetmask(address)
		o.masks = append(o.masks, mask)
		return err
	}
	parts, limit := 1, uint32(math.MaxUint32)
	if o.net.Type().IPAddressed() {
		parts, limit = octets, math.MaxUint8
	}
	exprs := strings.Split(address, ".")
	if len(exprs) != parts {
		return fmt.Errorf("address has %d parts, but %s needs %d", len(exprs), o.net.Type(), parts)
	}
	var list []RangeExpr
	for _, text := range exprs {
		e, err := parseRangeExpr(text, limit)
		if err != nil {
			return err
		}
		list = append(list, e)
	}
	o.ranges = append(o.ranges, list)
	return nil
}

// parseNetmask parses an IP address with a prefix length. An IPv6 address may have no
// prefix length, and then stands for itself.
func parseNetmask(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err == nil && a.Zone() != "" {
			err = errors.New("address has an IPv6 zone, which is not allowed")
		}
		return netip.PrefixFrom(a, a.BitLen()), err
	}
	mask, err := netip.ParsePrefix(s)
	if err == nil && mask.Bits() == 0 {
		err = errMaskWidth
	}
	return mask, err
}

// Match reports whether nid is in the set.
func (l NIDList) Match(nid NID) bool {
	return slices.ContainsFunc(l.nets, func(o nidsOfNet) bool { return o.net == nid.Net() && o.match(nid) })
}

func (o *nidsOfNet) match(nid NID) bool {
	if o.all {
		return true
	}
	inMask := func(m netip.Prefix) bool { return m.Contains(nid.IP()) } // false if the address families differ
	if o.net.Type().IPAddressed() && slices.ContainsFunc(o.masks, inMask) {
		return true
	}
	return !nid.IsLarge() && slices.ContainsFunc(o.ranges, func(list []RangeExpr) bool { return matchRanges(list, nid.Number()) })
}

func matchRanges(list []RangeExpr, v uint32) bool {
	if len(list) == 1 {
		return list[0].Match(v)
	}
	for k, e := range list {
		if !e.Match(v >> (8 * (octets - 1 - k)) & math.MaxUint8) {
			return false
		}
	}
	return true
}

// String returns the list in its normal form, which ParseNIDList accepts. Nets are in the
// order in which they first occurred; on each net, netmasks come before ranges. If a net
// has "*", only that is printed for the net.
func (l NIDList) String() string {
	var items []string
	for k := range l.nets {
		o := &l.nets[k]
		at := "@" + o.net.String()
		if o.all {
			items = append(items, "*"+at)
			continue
		}
		for _, m := range o.masks {
			if m.IsSingleIP() {
				items = append(items, m.Addr().String()+at)
			} else {
				items = append(items, m.String()+at)
			}
		}
		for _, list := range o.ranges {
			texts := make([]string, len(list))
			for i, e := range list {
				texts[i] = e.String()
			}
			items = append(items, strings.Join(texts, ".")+at)
		}
	}
	return strings.Join(items, " ")
}
