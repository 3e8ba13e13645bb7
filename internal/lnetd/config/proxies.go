package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/lnet"
)

// Proxies is the section "proxies" in "lnetd". It configures the nets whose drivers are proxies, in other
// processes.
type Proxies struct {
	// Socket is the path that proxies connect to. Empty means the default.
	Socket string
	// Group is the ID of the group that owns the socket. If it is negative, this is lnetd's group.
	Group int
	// NetTypes are the types of the nets. Without any, lnetd has no socket for proxies.
	NetTypes []lnet.NamedType
	// Rules control which processes may be proxies. If there are none, proxies.DefaultRules apply.
	Rules proxies.Rules
}

const (
	maxProxyName = 31  // docs/uplnd-protocol.md
	maxNetType   = 254 // 255 is the wildcard
	maxArea      = 1 << 10
)

// addressWords are the kinds of addresses on nets.
var addressWords = Words{"ip", "number"}

// proxiesKeys holds the keys of "proxies".
var proxiesKeys = map[string]setting[Proxies]{
	"socket": texts(pathText, func(p *Proxies, s string) error {
		p.Socket = s
		return nil
	}),
	"group": groupSetting(func(p *Proxies, id int) { p.Group = id }),
	"net_types": {list{&shape{key: "net_types", keys: formsOf(netTypeKeys), needed: [][]string{{"name"}, {"number"}}, lnetdOnly: true}},
		func(*Proxies, place) {}}, // see readNetTypes
	"rules": {list{&shape{key: "rules", keys: formsOf(proxyRuleKeys), needed: [][]string{{"name"}}, lnetdOnly: true}},
		func(p *Proxies, at place) {
			p.Rules = readRules(at, proxyRuleKeys, func(r *proxies.Rule) string { return r.Name })
		}},
}

// netTypeKeys holds the keys of an item of "net_types".
var netTypeKeys = map[string]setting[lnet.NamedType]{
	"name": texts(Text{"a net type", "mpi"}, func(t *lnet.NamedType, s string) error {
		t.Name = s
		return nil
	}),
	"number":    wholes(1, maxNetType, func(t *lnet.NamedType, n int) { t.Type = lnet.NetType(n) }),
	"addresses": wordsOf(addressWords, []bool{true, false}, func(t *lnet.NamedType, ip bool) { t.IP = ip }),
}

// proxyRuleKeys holds the keys of an item of "rules".
var proxyRuleKeys = map[string]setting[proxies.Rule]{
	"name":   ruleName(func(r *proxies.Rule, s string) { r.Name = s }),
	"users":  {userList, func(r *proxies.Rule, at place) { r.UIDs = at.ids("user", userID) }},
	"groups": {groupList, func(r *proxies.Rule, at place) { r.GIDs = at.ids("group", groupID) }},
	"nets": {list{scalar{netText}}, func(r *proxies.Rule, at place) {
		for _, item := range at.items() {
			if n, ok := item.net(); ok {
				r.Nets = append(r.Nets, n)
			}
		}
	}},
	"proxies": wholes(1, maxQuota, func(r *proxies.Rule, n int) { r.Proxies = n }),
	"memory": {scalar{Whole{2, maxArea}}, func(r *proxies.Rule, at place) {
		n, ok := at.number(2, maxArea)
		if !ok {
			return
		}
		if r.AreaSize = n << 20; r.Check() != nil {
			at.problemf("%d is not an even number of MiB", n).remedyf("half of the memory is for each direction: write 32, for example")
		}
	}},
}

// readNetTypes reads the net types of the document, names them in this process, and adds their drivers to those
// of r. It must be called before nets are parsed.
func (c *Config) readNetTypes(f *file, r *reading) {
	at, ok := f.lnetd.proxies["net_types"]
	if !ok {
		return
	}
	for _, item := range at.optionalItems() {
		t := lnet.NamedType{IP: true}
		before := len(r.problems)
		for _, m := range item.members(false) {
			if key, ok := netTypeKeys[m.key]; ok {
				key.read(&t, m.value)
			}
		}
		for key, missing := range map[string]bool{"name": t.Name == "", "number": t.Type == 0} {
			if _, given := item.optionalMember(key); missing && !given {
				item.missing(key, Text{"the type's " + key, ""})
			}
		}
		if len(r.problems) > before {
			continue
		}
		if d := tableOf(r.drivers, t.Type); d.Type == t.Type && !d.Proxied || t.Type == lnet.TypeLO {
			item.problemf("lnetd has its own driver for %s nets", t.Type).remedyf("choose another number for %q", t.Name)
			continue
		}
		if err := lnet.NameType(t); err != nil {
			item.problemf("%v", err).remedyf("choose another name or number; if lnetd runs already with another name for this type, restart it")
			continue
		}
		if slices.Contains(c.Proxies.NetTypes, t) {
			item.problemf("the net type %q occurs twice", t.Name).remedyf("remove one of them")
			continue
		}
		c.Proxies.NetTypes = append(c.Proxies.NetTypes, t)
	}
	r.addProxied(c.Proxies.NetTypes)
}

// addProxied adds the options of the drivers for types that proxies serve.
func (r *reading) addProxied(types []lnet.NamedType) {
	for _, t := range types {
		if d := tableOf(r.drivers, t.Type); d.Type != t.Type {
			r.drivers = append(slices.Clip(r.drivers), ProxiedOptions(t.Type))
		}
	}
}

// ProxiedOptions returns the options of the driver for nets of type t whose NIs proxies serve.
func ProxiedOptions(t lnet.NetType) DriverOptions {
	return DriverOptions{Table: proxies.Table(t), Proxied: true}
}

// CheckProxy returns an error if proxies with the name s cannot serve the NIs of the driver d. An empty name is
// always possible.
func CheckProxy(s string, d *DriverOptions) error {
	if s == "" {
		return nil
	}
	if !d.Proxied {
		return fmt.Errorf("%s nets are not served by proxies", d.Type)
	}
	if len(s) > maxProxyName || strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) {
		return fmt.Errorf("%q is not a name of 1 to %d printable ASCII characters", s, maxProxyName)
	}
	return nil
}
