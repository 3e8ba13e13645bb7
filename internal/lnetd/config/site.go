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

// ErrNoRules reports that none of the "ip2nets" rules matches this host.
var ErrNoRules = errors.New("no rule matches the interfaces and addresses of this host")

// RuleError is the error of a rule that contradicts the host's interfaces.
type RuleError struct {
	// Where is the rule's position in the file, "name:line: key".
	Where string
	Err   error
	// Remedy is advice for the operator.
	Remedy string
}

func (e *RuleError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *RuleError) Unwrap() error { return e.Err }

// Site is the part of a configuration that is written for all hosts of a site. Which of it
// applies to a host depends on the host's addresses. Config.Settle resolves it.
type Site struct {
	// Rules are those of "ip2nets" at the top, IP2Nets those of "ip2nets" in "lnetd".
	Rules   []NetRule
	IP2Nets lnet.IP2Nets
	// Where is the position of the first of Rules, or of IP2Nets, in the file: "name:line: key".
	Where string
	// Routes are those of "routes" in "lnetd". If Automatic is set, a gateway that is this node
	// makes the node a router. Automatic is set if the file does not configure forwarding.
	Routes    []Route
	Automatic bool
}

// Empty reports whether nothing depends on the host.
func (l *Site) Empty() bool { return len(l.Rules) == 0 && len(l.IP2Nets) == 0 && len(l.Routes) == 0 }

// NeedsMachine reports whether the state depends on the interfaces of the host. If so, Settle
// must resolve it.
func (c *Config) NeedsMachine() bool {
	return !c.Site.Empty() || slices.ContainsFunc(c.NIs, func(n NI) bool { return n.Listed != nil })
}

// Settle returns the state for a host with the given interfaces. It returns ErrNoRules,
// lnet.ErrNoMatch, a *RuleError, or an error if the NIs conflict. With an error, the state is that
// without the rules of the site.
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

// settleRules adds NIs for the rules of "ip2nets". For each net, the first rule that matches is
// used (lnetctl 10).
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
			ni.Net, ni.Tunables, ni.Options, ni.Where = r.net, r.tunables, r.options, r.where
			s.NIs = append(s.NIs, ni)
			done[r.net] = true
		}
	}
	if len(l.Rules) > 0 && len(done) == 0 {
		return ErrNoRules
	}
	return nil
}

// settleStrings adds NIs for the module parameter: the nets of all entries that match (lnetctl
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

// at sets the position in the file of NIs and returns them.
func at(nis []NI, where string) []NI {
	for k := range nis {
		nis[k].Where = where
	}
	return nis
}

// has reports whether a NID will be one of the node's own.
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

// moduleStrings holds the keys of "lnetd" with strings of LNet's own module parameters (lnetctl
// 13).
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

// addModuleStrings adds the strings that are not empty.
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
