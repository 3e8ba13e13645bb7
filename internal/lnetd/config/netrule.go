package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// NetRule is an item of "ip2nets". It adds a net to the hosts that have certain interfaces or addresses
// (lnetctl 10).
type NetRule struct {
	net lnet.Net
	// devices holds the interfaces that the rule names. The rule matches a host only if each of them
	// is up and has an address in ranges. If a name has numbers that select several interfaces, at
	// least one of these must be up and have such an address.
	devices []NI
	// all holds the CPU partitions of interfaces that the rule selects only by their address.
	all []int
	// required is true if it is an error that the rule does not match this host.
	required bool
	// ranges holds the address ranges. If it is empty, any address matches.
	ranges   []addressRange
	tunables lnd.Tunables
	options  lnd.Values
	proxy    string
	// where is the position in the file, "name:line: key".
	where string
}

// addressRange is a set of addresses: IPv4 addresses with a range for each octet, or IPv6 addresses with the
// same prefix.
type addressRange struct {
	octets *lnet.IPPattern // if nil, prefix is used
	prefix netip.Prefix
}

func parseAddressRange(s string) (addressRange, error) {
	if !strings.Contains(s, ":") {
		octets, err := lnet.ParseIPPattern(s)
		return addressRange{octets: &octets}, err
	}
	if !strings.Contains(s, "/") {
		s += "/128"
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return addressRange{}, fmt.Errorf("%q is neither four ranges separated by dots nor an IPv6 address with a prefix length", s)
	}
	return addressRange{prefix: prefix}, nil
}

func (r *addressRange) match(a netip.Addr) bool {
	if r.octets != nil {
		return r.octets.Match(a)
	}
	return r.prefix.Contains(a.WithZone(""))
}

// addNetRules adds the items of "ip2nets" to c.Site.Rules. It leaves out items with problems, which it
// reports.
func (c *Config) addNetRules(list []place) {
	for _, at := range list {
		if r, ok := readNetRule(at); ok {
			c.addNetRule(r, at)
		}
	}
}

func (c *Config) addNetRule(r NetRule, at place) {
	r.where = at.position()
	c.Site.Rules = append(c.Site.Rules, r)
	if len(c.Site.Rules) == 1 {
		c.Site.Where = r.where
	}
}

func readNetRule(at place) (r NetRule, good bool) {
	var net *place
	ni := fileNI{at: at}
	good = true
	for _, m := range at.members(false) {
		switch m.key {
		case "net-spec":
			net = &m.value
		case "ip-range":
			for _, v := range m.value.values() {
				a, ok := v.addressRange()
				r.ranges, good = append(r.ranges, a), good && ok
			}
		case "local NI(s)", "nid", "pattern": // already reported
		default:
			ni.member(m)
		}
	}
	good = ni.setRuleInterfaces(&r) && good
	if net == nil {
		at.missing("net-spec", netText)
		return r, false
	}
	to, ok := net.net()
	if !ok {
		return r, false
	}
	if to.Type() == lnet.TypeLO {
		net.problemf("every node has this NI").remedyf("remove the rule")
		return r, false
	}
	r.net, r.tunables, r.options, r.proxy = to, ni.tunables.tunables(), ni.options(to), ni.proxyName(to)
	return r, good
}

// setRuleInterfaces stores the interfaces and CPU partitions of ni in the rule r. It returns false if it
// has reported a problem.
func (ni *fileNI) setRuleInterfaces(r *NetRule) (good bool) {
	r.all, good = ni.allCPTs()
	for _, at := range ni.interfaces {
		device, ok := at.device(r.all)
		r.devices = append(r.devices, device)
		good = good && ok
	}
	return good
}

// addressRange parses the value as an address range. It returns false if it has reported a problem.
func (p place) addressRange() (addressRange, bool) {
	s, ok := p.textOf(rangeText)
	if !ok {
		return addressRange{}, false
	}
	r, err := parseAddressRange(s)
	if err != nil {
		p.reportInvalid(err, rangeText)
	}
	return r, err == nil
}

// match returns an NI, with device and CPU partitions, for each of the host's interfaces that the rule
// selects. The list is empty if the rule does not match the host.
func (r *NetRule) match(machine []Interface) (found []NI) {
	switch {
	case len(r.devices) > 0:
		return r.matchNames(machine)
	case len(r.ranges) > 0:
		for k := range machine {
			if i := &machine[k]; !i.Loopback && r.acceptsInterface(i) {
				found = append(found, NI{Device: i.Name, CPTs: r.all})
			}
		}
		return found
	}
	for k := range machine {
		if i := &machine[k]; i.Up && !i.Loopback && slices.ContainsFunc(i.Addrs, netip.Addr.Is4) {
			return []NI{{Device: i.Name, CPTs: r.all}}
		}
	}
	return nil
}

// matchNames does what match does for a rule that names interfaces.
func (r *NetRule) matchNames(machine []Interface) []NI {
	var fit []string
	for k := range machine {
		if r.acceptsInterface(&machine[k]) {
			fit = append(fit, machine[k].Name)
		}
	}
	found := ExpandDevices(r.namedInterfaces(machine), fit)
	for k := range found {
		if !slices.Contains(fit, found[k].Device) {
			return nil
		}
	}
	return found
}

// namedInterfaces returns the interfaces that the rule names. If the host has an interface with exactly
// that name, numbers after the name do not select interfaces, so Listed is nil.
func (r *NetRule) namedInterfaces(machine []Interface) []NI {
	list := slices.Clone(r.devices)
	for k := range list {
		if slices.Contains(namesOf(machine), list[k].Device) {
			list[k].Listed = nil
		}
	}
	return list
}

// remedy returns what to tell the operator about a rule whose interfaces have no matching address: which
// addresses they have, and which other interfaces match.
func (r *NetRule) remedy(machine []Interface) string {
	var parts, fit []string
	named := DevicesOf(ExpandDevices(r.namedInterfaces(machine), namesOf(machine)))
	for k := range machine {
		i := &machine[k]
		switch {
		case slices.Contains(named, i.Name) && !i.Up:
			parts = append(parts, i.Name+" is down")
		case slices.Contains(named, i.Name) && len(i.Addrs) > 0:
			parts = append(parts, i.Name+" has "+listAddrs(i.Addrs))
		case !i.Loopback && r.acceptsInterface(i):
			fit = append(fit, i.Name+" has "+listAddrs(i.Addrs))
		}
	}
	if len(fit) == 0 {
		return strings.Join(append(parts, "correct the pattern, or remove the interface"), "; ")
	}
	return strings.Join(append(append(parts, fit...), "write that interface, or remove the interface"), "; ")
}

// acceptsInterface reports whether the interface i is up and has an address in the rule's ranges.
func (r *NetRule) acceptsInterface(i *Interface) bool {
	return i.Up && slices.ContainsFunc(i.Addrs, func(a netip.Addr) bool {
		return len(r.ranges) == 0 || slices.ContainsFunc(r.ranges, func(in addressRange) bool { return in.match(a) })
	})
}
