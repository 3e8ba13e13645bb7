package lnet

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// IP2Nets is the "ip2nets" string. It assigns nets to nodes by their addresses, so that
// one text can serve a whole site (lnet-wire 3.7, lnetctl 13.3).
//
//	ip2nets   = entry { ";" entry }           or one entry per line; # comments
//	entry     = netspec { "," netspec } { blank ippattern }
//	ippattern = numrange "." numrange "." numrange "." numrange
//
// For example:
//
//	tcp1(eth3) 10.20.30.[2-8/2]; tcp *.*.*.*
//
// netspec is defined at Networks, but must not contain blanks. numrange is defined at
// RangeExpr.
type IP2Nets []IP2NetsRule

// IP2NetsRule is one entry of an IP2Nets.
type IP2NetsRule struct {
	// Nets are the nets that a node with a matching address is on.
	Nets Networks
	// Patterns match IPv4 addresses. A rule without patterns never matches.
	Patterns []IPPattern
}

// IPPattern is a set of IPv4 addresses, with one range expression per octet.
type IPPattern [4]RangeExpr

var (
	// ErrNoMatch means that no rule of an IP2Nets matches the addresses of this node.
	ErrNoMatch = errors.New("ip2nets: no rule matches a local address")

	errDuplicateNet = errors.New("net occurs twice in a rule")
	errOctets       = errors.New("address is not four ranges joined by dots")
)

// ParseIP2Nets parses an "ip2nets" string. A string without entries is valid, but matches
// no node.
func ParseIP2Nets(s string) (IP2Nets, error) {
	var rules IP2Nets
	for entry := range moduleEntries(s) {
		rule, err := parseIP2NetsRule(entry)
		if err != nil {
			return nil, &FieldError{What: "ip2nets", Value: entry, Err: err}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// moduleEntries returns the entries of a module parameter. They are separated by
// semicolons or line ends. Comments and blank entries are skipped.
func moduleEntries(s string) iter.Seq[string] {
	isEnd := func(r rune) bool { return r == ';' || r == '\n' || r == '\r' }
	return func(yield func(string) bool) {
		for entry := range strings.FieldsFuncSeq(s, isEnd) {
			entry, _, _ = strings.Cut(entry, "#")
			entry = strings.Trim(entry, blanks)
			if entry != "" && !yield(entry) {
				return
			}
		}
	}
}

// fieldsOf splits an entry at blanks.
func fieldsOf(entry string) []string {
	return strings.FieldsFunc(entry, func(r rune) bool { return strings.ContainsRune(blanks, r) })
}

func parseIP2NetsRule(entry string) (IP2NetsRule, error) {
	if len(entry) > maxModuleString {
		return IP2NetsRule{}, errTooLong
	}
	fields := fieldsOf(entry)
	nets, err := parseNetworks(fields[0])
	if err != nil {
		return IP2NetsRule{}, err
	}
	for i := range nets {
		if slices.ContainsFunc(nets[:i], func(s NetSpec) bool { return s.Net == nets[i].Net }) {
			return IP2NetsRule{}, errDuplicateNet
		}
	}
	rule := IP2NetsRule{Nets: nets}
	for _, field := range fields[1:] {
		p, err := ParseIPPattern(field)
		if err != nil {
			return IP2NetsRule{}, err
		}
		rule.Patterns = append(rule.Patterns, p)
	}
	return rule, nil
}

// ParseIPPattern parses a pattern for IPv4 addresses: four range expressions of 0 to 255,
// joined by dots.
func ParseIPPattern(s string) (IPPattern, error) {
	p, err := parseIPPattern(s)
	if err != nil {
		return IPPattern{}, &FieldError{What: "IP pattern", Value: s, Err: err}
	}
	return p, nil
}

func parseIPPattern(s string) (p IPPattern, err error) {
	for i := range p {
		part, rest, found := strings.Cut(s, ".")
		if found != (i < len(p)-1) {
			return IPPattern{}, errOctets
		}
		if p[i], err = parseRangeExpr(part, 255); err != nil {
			return IPPattern{}, err
		}
		s = rest
	}
	return p, nil
}

// Match reports whether the address a is in the set. An IPv4-mapped IPv6 address is
// treated as the IPv4 address. Other IPv6 addresses never match.
func (p *IPPattern) Match(a netip.Addr) bool {
	a = a.Unmap()
	if !a.Is4() {
		return false
	}
	for i, octet := range a.As4() {
		if !p[i].Match(uint32(octet)) {
			return false
		}
	}
	return true
}

// String returns the pattern as ParseIPPattern reads it, with "*" for an octet that matches
// everything.
func (p *IPPattern) String() string {
	var b []byte
	for i, e := range p {
		if i > 0 {
			b = append(b, '.')
		}
		if len(e) == 1 && e[0] == (Range{Lo: 0, Hi: 255, Stride: 1}) {
			b = append(b, '*')
		} else {
			b = e.append(b)
		}
	}
	return string(b)
}

// Match reports whether one of the addresses matches one of the rule's patterns.
func (r *IP2NetsRule) Match(local []netip.Addr) bool {
	for i := range r.Patterns {
		if slices.ContainsFunc(local, r.Patterns[i].Match) {
			return true
		}
	}
	return false
}

// String returns the rule as an entry of IP2Nets.
func (r *IP2NetsRule) String() string {
	text := r.Nets.String()
	for i := range r.Patterns {
		text += " " + r.Patterns[i].String()
	}
	return text
}

// Match returns the nets of all rules that match local, in the order of the rules. local
// must hold the addresses of the node's interfaces that are up, without loopback. The
// error is ErrNoMatch if no rule matches, or a *FieldError if a net would have the same
// interface twice.
func (n IP2Nets) Match(local []netip.Addr) (Networks, error) {
	var nets Networks
	matched := false
	for i := range n {
		if n[i].Match(local) {
			matched = true
			nets = append(nets, n[i].Nets...)
		}
	}
	if !matched {
		return nil, ErrNoMatch
	}
	if err := nets.check(); err != nil {
		return nil, err
	}
	return nets, nil
}

// String returns the text that ParseIP2Nets reads.
func (n IP2Nets) String() string {
	rules := make([]string, len(n))
	for i := range n {
		rules[i] = n[i].String()
	}
	return strings.Join(rules, "; ")
}
