package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// Mismatches returns a text for each interface that an entry of the string "ip2nets" selects although
// the interface has no address that matches the patterns of the entry. Such an interface is used
// nevertheless, as in kernels (lnetctl 13.3), because an entry applies if any interface of the host
// matches.
func (l *Site) Mismatches(machine []Interface) (out []string) {
	usable := slices.DeleteFunc(slices.Clone(machine), func(i Interface) bool { return !i.Up || i.Loopback })
	for k := range l.IP2Nets {
		rule := &l.IP2Nets[k]
		at := slices.IndexFunc(usable, func(i Interface) bool { return rule.Match(i.Addrs) })
		if at < 0 {
			continue
		}
		matching := slices.DeleteFunc(slices.Clone(usable[at].Addrs), func(a netip.Addr) bool { return !rule.Match([]netip.Addr{a}) })
		for _, spec := range rule.Nets {
			for _, i := range chosen(&spec, usable) {
				if !rule.Match(i.Addrs) {
					out = append(out, fmt.Sprintf("%s(%s) has no address that matches the patterns of %q; %s has %s", spec.Net, i.Name, rule, usable[at].Name, listAddrs(matching)))
				}
			}
		}
	}
	return out
}

// listAddrs joins addresses to a text.
func listAddrs(addrs []netip.Addr) string {
	var all []string
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}

// chosen returns those of the usable interfaces that spec names. If it names no interface, chosen
// returns the first usable one with an IPv4 address.
func chosen(spec *lnet.NetSpec, usable []Interface) (out []Interface) {
	nis, err := nisOf(lnet.Networks{*spec})
	if err != nil {
		return nil // Settle returns the error
	}
	names := DevicesOf(ExpandDevices(nis, namesOf(usable)))
	for _, i := range usable {
		if slices.Contains(names, i.Name) || len(spec.Interfaces) == 0 && slices.ContainsFunc(i.Addrs, netip.Addr.Is4) {
			out = append(out, i)
		}
		if len(spec.Interfaces) == 0 && len(out) > 0 {
			break
		}
	}
	return out
}
