package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// addNet adds the NIs of f, an item of "net", to c (lnetctl 9.1).
func (c *Config) addNet(f fileNet) {
	var n lnet.Net // stays zero if the name is missing, which has been reported
	if f.name.node != f.at.node {
		n, _ = f.name.net()
	}
	if n.Type() == lnet.TypeLO {
		return // every node has 0@lo
	}
	if f.direct.pattern != nil {
		if f.patternAlone() {
			c.addNetPattern(n, &f.direct)
		}
		return
	}
	items := f.nis
	switch {
	case !f.list:
		items = []fileNI{f.direct}
	case len(f.direct.interfaces) > 0 || f.direct.nid != nil:
		f.at.problemf("has interfaces both in 'local NI(s)' and outside of it").remedyf("move all interfaces into 'local NI(s)'")
	}
	var common *lnd.Tunables
	ownOptions := f.direct.options(n)
	for _, item := range items {
		tunables, options := item.tunables, ownOptions
		if tunables == nil {
			tunables = f.direct.tunables
		}
		if item.hasTunables() && f.list {
			options = item.options(n)
		}
		if item.cpts == nil {
			item.cpts = f.direct.cpts
		}
		if item.proxy == nil {
			item.proxy = f.direct.proxy
		}
		t := tunables.tunables()
		if common == nil {
			common = &t
		} else if *common != t {
			item.at.warn("All NIs of a net should have the same tunables; those of the first NI apply")
		}
		proxy := item.proxyName(n)
		for _, ni := range item.places(n) {
			ni.Tunables, ni.Proxy = *common, proxy
			ni.Options = maps.Clone(options)
			c.addNI(ni, item.at)
		}
	}
}

// addNI adds an NI to c. It reports a problem if the file already contains an NI with the same net and
// the same device or NID, or if there are too many NIs.
func (c *Config) addNI(ni NI, at place) {
	switch {
	case ni.Net == 0:
		return
	case len(c.NIs) == rulesMax:
		at.problemf("more than %d NIs", rulesMax).remedyf("leave some out")
		return
	}
	twice := slices.ContainsFunc(c.NIs, func(o NI) bool {
		return o.Net == ni.Net && (o.Device != "" && o.Device == ni.Device || !o.NID.IsZero() && o.NID == ni.NID)
	})
	if twice {
		at.problemf("the NI %s occurs twice", &ni).remedyf("remove one of them; one interface may have NIs on several nets")
		return
	}
	ni.Where = at.position()
	c.NIs = append(c.NIs, ni)
}

// addNetPattern adds a rule for the net n that selects interfaces by a pattern of addresses. If ni also
// names interfaces, these must have such an address (lnetctl 11).
func (c *Config) addNetPattern(n lnet.Net, ni *fileNI) {
	a, ok := ni.pattern.addressRange()
	r := NetRule{net: n, ranges: []addressRange{a}, tunables: ni.tunables.tunables(), options: ni.options(n), proxy: ni.proxyName(n)}
	if ni.setRuleInterfaces(&r) && ok && n != 0 {
		r.required = len(r.devices) > 0
		c.addNetRule(r, ni.at)
	}
}

// patternAlone reports whether "pattern" may select the NIs of the item, because there is neither "local
// NI(s)" nor "nid". Otherwise it adds a problem.
func (f *fileNet) patternAlone() bool {
	beside := ""
	switch {
	case f.list:
		beside = "local NI(s)"
	case f.direct.nid != nil:
		beside = "nid"
	default:
		return true
	}
	f.direct.pattern.problemf("'pattern' and '%s' cannot be combined", beside).
		remedyf("write a separate item of 'net' for each, or remove one of them")
	return false
}

// places returns an NI on the net n for each interface that ni names or, if it names none, one NI for
// its "nid". If ni has both one interface and a NID, the NI has both, so the interface must have that
// NID.
func (ni *fileNI) places(n lnet.Net) []NI {
	nid, ok := ni.ownNID(n)
	if !ok {
		return nil
	}
	all, ok := ni.allCPTs()
	if !ok {
		return nil
	}
	if len(ni.interfaces) == 0 {
		_, said := ni.at.optionalMember("interfaces")
		noted := said || ni.at.node.Kind != yaml.MappingNode || ni.at.hasMisspelled("interfaces", "nid", "local NI(s)")
		switch {
		case ni.at.key() == "net" && nid.IsZero() && !noted:
			ni.at.warn("no interface is given: the driver uses the first one that is up").remedyf(`write "interfaces: {0: eth0}"`)
			fallthrough
		case !nid.IsZero():
			return []NI{{Net: n, NID: nid, CPTs: all}}
		case !noted:
			ni.at.problemf("neither \"interfaces\" nor \"nid\" is given").remedyf(`write "interfaces: {0: eth0}"`)
		}
		return nil
	}
	if len(ni.interfaces) > 1 && !nid.IsZero() {
		ni.nid.problemf("one NID for %d interfaces", len(ni.interfaces)).remedyf("write an item of 'local NI(s)' for each interface")
		return nil
	}
	var out []NI
	for _, at := range ni.interfaces {
		if one, ok := at.device(all); ok {
			one.Net, one.NID = n, nid
			out = append(out, one)
		}
	}
	return out
}

// ownNID returns the value of "nid", or the zero NID if it is absent. It returns false if it has
// reported a problem, such as a NID that is not on the net n.
func (ni *fileNI) ownNID(n lnet.Net) (lnet.NID, bool) {
	if ni.nid == nil {
		return lnet.NID{}, true
	}
	text, ok := ni.nid.textOf(nidText)
	if !ok {
		return lnet.NID{}, false
	}
	nid, err := lnet.ParseNID(text)
	switch {
	case err != nil:
		ni.nid.reportInvalid(err, nidText)
		return nid, false
	case n != 0 && nid.Net() != n:
		ni.nid.problemf("%s is not on net %s", nid, n).remedyf("move it to the net '%s'", nid.Net())
		return nid, false
	}
	return nid, true
}

// proxyName returns the value of "proxy", or "" if it is absent. It reports a problem if the nets of the type of
// n are not served by proxies.
func (ni *fileNI) proxyName(n lnet.Net) string {
	if ni.proxy == nil {
		return ""
	}
	name, ok := ni.proxy.textOf(proxyText)
	switch {
	case !ok || n == 0:
		return ""
	case name == "":
		ni.proxy.problemf("the name is empty").remedy(remedyOf(proxyText, "proxy"))
	}
	if err := CheckProxy(name, tableOf(ni.at.file.drivers, n.Type())); err != nil {
		ni.proxy.problemf("%v", err).remedyf(`%s; proxies serve the net types in "lnetd: proxies: net_types"`, remedyOf(proxyText, "proxy"))
	}
	return name
}

// allCPTs returns the value of "CPT", which applies to all interfaces of ni. Nil means all CPU
// partitions. It returns false if it has reported a problem.
func (ni *fileNI) allCPTs() ([]int, bool) {
	if ni.cpts == nil {
		return nil, true
	}
	return ni.cpts.cpts()
}

// device returns an NI with the name and the CPU partitions of the interface. If the interface has no
// CPU partitions, the NI gets those in all. It returns false if it has reported a problem.
func (i *fileInterface) device(all []int) (ni NI, ok bool) {
	s, ok := i.textOf(deviceText)
	if !ok {
		return ni, false
	}
	if i.cpts != nil {
		if all, ok = i.cpts.cpts(); !ok {
			return ni, false
		}
	}
	ni, err := ParseDevice(s, all)
	switch {
	case err != nil:
		i.reportInvalid(err, deviceText)
		return ni, false
	case i.cpts != nil && ni.Device != s && ni.Listed == nil:
		i.cpts.problemf("occurs twice: the interface name also has CPU partitions, %s", s).remedyf("remove one of them")
		return ni, false
	case i.cpts != nil:
		ni.CPTs = all
	}
	return ni, true
}

// tunables returns the tunables in f, which may be nil. Absent ones have the values that mean the
// driver's default.
func (f *fileTunables) tunables() lnd.Tunables {
	t := lnd.Tunables{PeerTimeout: -1}
	if f == nil {
		return t
	}
	if f.peerTimeout != nil && *f.peerTimeout >= 0 {
		t.PeerTimeout = seconds(*f.peerTimeout)
	}
	credits := func(from *int, into *int) {
		if from != nil && *from > 0 {
			*into = *from
		}
	}
	credits(f.peerCredits, &t.PeerCredits)
	credits(f.peerBufferCredits, &t.PeerBufferCredits)
	credits(f.credits, &t.Credits)
	return t
}

// hasTunables reports whether ni contains LND tunables.
func (ni *fileNI) hasTunables() bool {
	return ni.lnd != nil || ni.tunables != nil && ni.tunables.hasLNDTunables
}

// options returns the LND tunables in ni and reports unknown keys among them. The tunables are those of
// the driver for the net n; without a driver, the result is nil. Values in "lnd tunables" take
// precedence over values in "tunables", where exports of Lustre 2.9 and 2.10 have them.
func (ni *fileNI) options(n lnet.Net) lnd.Values {
	if n == 0 {
		return nil
	}
	tunables := tableOf(ni.at.file.drivers, n.Type()).tunables()
	var v Values
	up := []*shape{{key: ni.at.key(), keys: niKeys(ni.at.file.drivers)}}
	if ni.tunables != nil {
		at := ni.tunables.at
		directTunablesFor(n.Type(), tunables).check(at, up)
		v = v.read(at.optionalMembers(), tunables)
	}
	if ni.lnd != nil {
		tunablesFor(n.Type(), tunables).check(*ni.lnd, up)
		v = v.read(ni.lnd.optionalMembers(), tunables)
	}
	return v.numbers()
}
