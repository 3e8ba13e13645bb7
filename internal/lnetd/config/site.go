package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Interface is a network interface of the host.
type Interface struct {
	Name         string
	Addrs        []netip.Addr
	Up, Loopback bool
}

// ErrNoRules means that no "ip2nets" rule matches this host.
var ErrNoRules = errors.New("no rule matches the interfaces and addresses of this host")

// RuleError is the error of a rule that names an interface which does not have a matching address.
type RuleError struct {
	// Where is the rule's position in the file, "name:line: key".
	Where string
	Err   error
	// Remedy tells the operator what to do.
	Remedy string
}

func (e *RuleError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *RuleError) Unwrap() error { return e.Err }

// Site is the part of a configuration that is written for all hosts of a site, with rules that depend on
// the addresses of a host. Config.Settle resolves it for one host.
type Site struct {
	// Rules are the items of the section "ip2nets". IP2Nets are the entries of the string "ip2nets"
	// in the section "lnetd".
	Rules   []NetRule
	IP2Nets lnet.IP2Nets
	// Where is the position of the first of Rules, or of IP2Nets, in the file: "name:line: key".
	Where string
	// Routes are the routes of the string "routes" in the section "lnetd". If Automatic is set, a
	// host that is the gateway of one of these routes becomes a router. Automatic is set unless the
	// file has "forwarding".
	Routes    []Route
	Automatic bool
}

// Empty reports whether l has no rules and no routes, so that the configuration does not depend on the host.
func (l *Site) Empty() bool { return len(l.Rules) == 0 && len(l.IP2Nets) == 0 && len(l.Routes) == 0 }

// NeedsMachine reports whether c depends on the interfaces of the host. If so, the caller must get the
// state from Settle. Otherwise c.State is the state for every host.
func (c *Config) NeedsMachine() bool {
	return !c.Site.Empty() || slices.ContainsFunc(c.NIs, func(n NI) bool { return n.Listed != nil })
}

// Settle resolves c for a host with the given interfaces and returns the state for that host. If no rule
// matches the host, the error is ErrNoRules or lnet.ErrNoMatch. If a rule contradicts the interfaces, the
// error is a *RuleError. With any error, Settle returns the state without the part in c.Site.
func (c *Config) Settle(machine []Interface) (State, error) {
	named := c.State
	named.NIs = slices.Clip(ExpandDevices(named.NIs, namesOf(machine)))
	s := named
	if err := c.Site.settleRules(&s, machine); err != nil {
		return named, err
	}
	if err := c.Site.settleStrings(&s, machine); err != nil {
		return named, err
	}
	s.Routes = slices.Clip(s.Routes)
	for _, r := range c.Site.Routes {
		switch {
		case !s.has(r.Gateway, machine):
			s.Routes = append(s.Routes, r)
		case c.Site.Automatic && s.Routing == RoutingOff:
			s.Routing = RoutingAtOnce
		}
	}
	return s, nil
}

// settleRules adds the NIs of those items of the section "ip2nets" that match the host to s. If several
// items for the same net match, it uses only the first one (lnetctl 10).
func (l *Site) settleRules(s *State, machine []Interface) error {
	done := map[lnet.Net]bool{}
	for k := range l.Rules {
		r := &l.Rules[k]
		if done[r.net] {
			continue
		}
		found := r.match(machine)
		if len(found) == 0 && r.required {
			return &RuleError{r.where, fmt.Errorf("net %s: no address of the interface %s matches the pattern", r.net, r.devices[0].Device), r.remedy(machine)}
		}
		for _, ni := range found {
			ni.Net, ni.Tunables, ni.Options, ni.Proxy, ni.Where = r.net, r.tunables, r.options, r.proxy, r.where
			s.NIs = append(s.NIs, ni)
			done[r.net] = true
		}
	}
	if len(l.Rules) > 0 && len(done) == 0 {
		return ErrNoRules
	}
	return nil
}

// settleStrings adds the NIs of all entries of the string "ip2nets" that match the host to s (lnetctl
// 13.3).
func (l *Site) settleStrings(s *State, machine []Interface) error {
	if len(l.IP2Nets) == 0 {
		return nil
	}
	var addrs []netip.Addr
	for _, i := range machine {
		if i.Up && !i.Loopback {
			addrs = append(addrs, i.Addrs...)
		}
	}
	nets, err := l.IP2Nets.Match(addrs)
	if err != nil {
		return err
	}
	nis, err := nisOf(nets)
	s.NIs = append(s.NIs, at(ExpandDevices(nis, namesOf(machine)), l.Where)...)
	return err
}

// at sets the position in the file of all NIs in the list to where, and returns the list.
func at(nis []NI, where string) []NI {
	for k := range nis {
		nis[k].Where = where
	}
	return nis
}

// has reports whether a node in state s on a host with the given interfaces will have the NID.
func (s *State) has(nid lnet.NID, machine []Interface) bool {
	owns := func(device string) bool {
		return slices.ContainsFunc(machine, func(i Interface) bool {
			return (device == "" || i.Name == device) && slices.Contains(i.Addrs, nid.IP())
		})
	}
	if len(s.NIs) == 0 {
		return nid.Net() == lnet.MakeNet(lnet.TypeTCP, 0) && owns("")
	}
	return slices.ContainsFunc(s.NIs, func(i NI) bool {
		return i.NID == nid || i.NID.IsZero() && i.Net == nid.Net() && owns(i.Device)
	})
}

// moduleStrings holds the keys of "lnetd" whose values are strings of LNet's module parameters (lnetctl
// 13). The functions parse a string and add the result to a Config.
var moduleStrings = map[string]func(*Config, place, string) error{
	"networks": func(c *Config, where place, s string) error {
		nis, err := networks([]string{s})
		c.NIs = append(c.NIs, at(nis, where.position())...)
		return err
	},
	"ip2nets": func(c *Config, where place, s string) error {
		rules, err := lnet.ParseIP2Nets(s)
		if err == nil && len(rules) == 0 {
			err = fmt.Errorf("%q contains no entry", s)
		}
		c.Site.IP2Nets = rules
		if c.Site.Where == "" {
			c.Site.Where = where.position()
		}
		return err
	},
	"routes": func(c *Config, at place, s string) error {
		routes, err := lnet.ParseRoutes(s)
		for _, r := range routes {
			c.Site.Routes = append(c.Site.Routes, Route{
				Net: r.Net, Gateway: r.Gateway, Where: at.position(),
				RouteOptions: node.RouteOptions{Hops: uint32(r.Hops), Priority: r.Priority},
			})
		}
		return err
	},
}

// addModuleStrings parses the module parameters among the values own of the section "lnetd", and adds
// the results to c. It ignores empty strings.
func (c *Config) addModuleStrings(own map[string]place) {
	given := map[string]bool{}
	for name, read := range moduleStrings {
		at, ok := own[name]
		if !ok {
			continue
		}
		s, ok := at.text()
		if !ok || s == "" {
			continue
		}
		given[name] = true
		if err := read(c, at, s); err != nil {
			at.problemf("%v", err).remedyf("write, for example, %s: %s", name, moduleExamples[name])
		}
	}
	if given["networks"] && given["ip2nets"] {
		own["ip2nets"].problemf("cannot be combined with networks").remedyf("remove one of them")
	}
	_, forwarding := own["forwarding"]
	c.Site.Automatic = given["routes"] && !forwarding
}
