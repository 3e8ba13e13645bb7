package lnet

import (
	"errors"
	"strings"
)

// Networks is the "networks" string: the nets that a node is on, with their interfaces
// (lnet-wire 3.6, lnetctl 13.1).
//
//	networks = netspec { "," netspec }
//	netspec  = net [ "(" iface { "," iface } ")" ] [ "[" cptlist "]" ]
//	iface    = ifname [ "[" cptlist "]" ]
//	cptlist  = rexpr { "," rexpr }
//
// For example:
//
//	tcp0(eth0),o2ib0(ib0[0-3])[1]
//
// If a net occurs several times, its interfaces are combined. The net "lo" is accepted and
// ignored, because every node has it. rexpr is defined at RangeExpr.
type Networks []NetSpec

// NetSpec is one element of a Networks: a net with its interfaces.
type NetSpec struct {
	Net Net
	// Interfaces are the interfaces for which the node has NIs on the net, one NI each. If
	// the list is empty, the driver uses the first suitable interface.
	Interfaces []InterfaceSpec
	// CPTs are the CPU partitions for interfaces that have no list themselves. Nil means all
	// partitions.
	CPTs RangeExpr
}

// InterfaceSpec is one network interface of a NetSpec.
type InterfaceSpec struct {
	// Name is the name of the interface or of an alias, such as "eth0" or "eth0:1".
	Name string
	// CPTs are the CPU partitions of the NI. Nil means those of the NetSpec.
	CPTs RangeExpr
}

// maxModuleString is the maximum length of a module parameter, or of one of its entries,
// in bytes.
const maxModuleString = 4096

var (
	errTooLong            = errors.New("longer than 4096 bytes")
	errEmptyElement       = errors.New("empty element")
	errUnexpectedText     = errors.New("text after the net or interface is not a CPT list in brackets")
	errInterfaceName      = errors.New("interface name is empty or contains a blank")
	errDuplicateInterface = errors.New("listed twice on this net")
)

// ParseNetworks parses a "networks" string. It allows a comma at the end.
func ParseNetworks(s string) (Networks, error) {
	n, err := parseNetworks(s)
	if err != nil {
		return nil, &FieldError{What: "networks", Value: s, Err: err}
	}
	return n, nil
}

func parseNetworks(s string) (Networks, error) {
	if len(s) > maxModuleString {
		return nil, errTooLong
	}
	elements, err := splitOutside(s, ',')
	if err != nil {
		return nil, err
	}
	if last := len(elements) - 1; last > 0 && strings.Trim(elements[last], blanks) == "" {
		elements = elements[:last]
	}
	n := make(Networks, 0, len(elements))
	for _, e := range elements {
		spec, err := parseNetSpec(e)
		if err != nil {
			return nil, err
		}
		if spec.Net != LoNet {
			n = append(n, spec)
		}
	}
	return n, n.check()
}

// check returns a *FieldError if a net has the same interface twice.
func (n Networks) check() error {
	type interfaceOnNet struct {
		net  Net
		name string
	}
	seen := make(map[interfaceOnNet]bool)
	for _, spec := range n {
		for _, i := range spec.Interfaces {
			key := interfaceOnNet{spec.Net, i.Name}
			if seen[key] {
				return &FieldError{What: spec.Net.String(), Field: "interface", Value: i.Name, Err: errDuplicateInterface}
			}
			seen[key] = true
		}
	}
	return nil
}

// splitOutside splits s at each sep that is outside of parentheses and brackets.
// Parentheses and brackets must be balanced. The only nesting allowed is brackets within
// parentheses.
func splitOutside(s string, sep byte) ([]string, error) {
	var parts []string
	start, paren, bracket := 0, false, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '(' && !paren && !bracket:
			paren = true
		case c == ')' && paren && !bracket:
			paren = false
		case c == '[' && !bracket:
			bracket = true
		case c == ']' && bracket:
			bracket = false
		case c == '(', c == ')', c == '[', c == ']':
			return nil, errBrackets
		case c == sep && !paren && !bracket:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	if paren || bracket {
		return nil, errBrackets
	}
	return append(parts, s[start:]), nil
}

// parseNetSpec parses one netspec. The brackets in s must be balanced.
func parseNetSpec(s string) (NetSpec, error) {
	name, rest := cutBracket(s, "([")
	if name == "" && rest == "" {
		return NetSpec{}, errEmptyElement
	}
	net, err := ParseNet(name)
	if err != nil {
		return NetSpec{}, err
	}
	spec := NetSpec{Net: net}
	if list, ok := strings.CutPrefix(rest, "("); ok {
		list, rest, _ = strings.Cut(list, ")")
		if spec.Interfaces, err = parseInterfaces(list); err != nil {
			return NetSpec{}, err
		}
		rest = strings.Trim(rest, blanks)
	}
	spec.CPTs, err = parseCPTs(rest)
	return spec, err
}

// cutBracket splits s before the first of the brackets, and trims blanks from both parts.
func cutBracket(s, brackets string) (before, rest string) {
	i := strings.IndexAny(s, brackets)
	if i < 0 {
		i = len(s)
	}
	return strings.Trim(s[:i], blanks), strings.Trim(s[i:], blanks)
}

func parseInterfaces(list string) ([]InterfaceSpec, error) {
	items, err := splitOutside(list, ',')
	if err != nil {
		return nil, err
	}
	specs := make([]InterfaceSpec, 0, len(items))
	for _, item := range items {
		name, rest := cutBracket(item, "[")
		if name == "" || strings.ContainsAny(name, blanks) {
			return nil, errInterfaceName
		}
		cpts, err := parseCPTs(rest)
		if err != nil {
			return nil, err
		}
		specs = append(specs, InterfaceSpec{Name: name, CPTs: cpts})
	}
	return specs, nil
}

// parseCPTs parses "[...]" or an empty text. It does not check whether the partitions
// exist; RangeExpr.Below does.
func parseCPTs(s string) (RangeExpr, error) {
	if s == "" {
		return nil, nil
	}
	list, ok := strings.CutPrefix(s, "[")
	if !ok {
		return nil, errUnexpectedText
	}
	if list, ok = strings.CutSuffix(list, "]"); !ok || strings.ContainsAny(list, "[]") {
		return nil, errUnexpectedText
	}
	return parseRanges(list, ^uint32(0))
}

// CPTsOf returns the CPU partitions of the interface with index i: its own list if it has
// one, otherwise the list of the net. If no interface has this index, it returns the list
// of the net.
func (s *NetSpec) CPTsOf(i int) RangeExpr {
	if i >= 0 && i < len(s.Interfaces) && s.Interfaces[i].CPTs != nil {
		return s.Interfaces[i].CPTs
	}
	return s.CPTs
}

// String returns the nets in the form that ParseNetworks accepts. It returns "lo" if there
// are no nets.
func (n Networks) String() string {
	if len(n) == 0 {
		return LoNet.String()
	}
	specs := make([]string, len(n))
	for i := range n {
		specs[i] = n[i].String()
	}
	return strings.Join(specs, ",")
}

// String returns the net as an element of Networks.
func (s *NetSpec) String() string {
	b, _ := s.Net.AppendText(nil)
	for i, iface := range s.Interfaces {
		if i == 0 {
			b = append(b, '(')
		} else {
			b = append(b, ',')
		}
		b = append(b, iface.Name...)
		if iface.CPTs != nil {
			b = iface.CPTs.appendList(b)
		}
	}
	if len(s.Interfaces) > 0 {
		b = append(b, ')')
	}
	if s.CPTs != nil {
		b = s.CPTs.appendList(b)
	}
	return string(b)
}
