package lnet

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// NIDList is a set of NIDs by nets (lnet-wire 3.5), as Lustre's own lists have them:
//
//	nidlist   = nidrange { " " nidrange }
//	nidrange  = addrrange "@" net
//	addrrange = "*" | netmask | expr "." expr "." expr "." expr | expr
//	netmask   = IPv4 address "/" 1..32 | IPv6 address [ "/" 1..128 ]
//
// expr is a range expression. Numbers may be hexadecimal and octal, that of the net too.
// The zero NIDList has no NIDs.
type NIDList struct {
	nets []nidsOfNet
}

// nidsOfNet are the NIDs of a list on one net.
type nidsOfNet struct {
	net    Net
	all    bool
	masks  []netip.Prefix
	ranges [][]RangeExpr // four of them each, or one
}

var (
	errNoNIDs    = errors.New("there are no NIDs in it")
	errNoNet     = errors.New("no @ and a net after it")
	errMaskWidth = errors.New("the width of a netmask is at least 1")
)

// ParseNIDList reads a list. Errors are *FieldError.
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

// add adds one range of NIDs.
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
		return fmt.Errorf("%d parts where %s has %d", len(exprs), o.net.Type(), parts)
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

// parseNetmask reads an address with the width of its net; IPv6 may be without.
func parseNetmask(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err == nil && a.Zone() != "" {
			err = errors.New("an address with a zone")
		}
		return netip.PrefixFrom(a, a.BitLen()), err
	}
	mask, err := netip.ParsePrefix(s)
	if err == nil && mask.Bits() == 0 {
		err = errMaskWidth
	}
	return mask, err
}

// Match tells whether the NID is one of the list's.
func (l NIDList) Match(nid NID) bool {
	return slices.ContainsFunc(l.nets, func(o nidsOfNet) bool { return o.net == nid.Net() && o.match(nid) })
}

func (o *nidsOfNet) match(nid NID) bool {
	if o.all {
		return true
	}
	inMask := func(m netip.Prefix) bool { return m.Contains(nid.IP()) } // never of another family
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

// String is the list in its normal form, which ParseNIDList reads back: net by net,
// netmasks before ranges, and nothing beside "*".
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
