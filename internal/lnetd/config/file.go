package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
)

// file is a configuration file that has been divided into its sections. Its keys have been checked, but
// most of its values have not.
type file struct {
	nets     []fileNet
	netRules []place // items of "ip2nets"
	peers    []place // values of "peer" and "peers"
	routes   []place // values of "route"
	rules    []place // items of "udsp"
	typed    []place // items of "selection", both at the top and in "lnetd"
	routing  []place // values of "enable"
	buffers  map[string]place
	globals  fileGlobals
	lnetd    fileLnetd
	any      bool // the file has at least one key
}

// fileNet is an item of "net".
type fileNet struct {
	at     place
	name   place  // net type
	direct fileNI // keys of an NI that are directly in the item, not in "local NI(s)"
	nis    []fileNI
	list   bool // "local NI(s)" is present
}

// fileNI is an item of "local NI(s)".
type fileNI struct {
	at         place
	interfaces []fileInterface
	named      *member // "interfaces" or "intf", or nil
	nid        *place
	tunables   *fileTunables
	lnd        *place // "lnd tunables", or nil
	cpts       *place // "CPT", or nil
	proxy      *place // "proxy", or nil
	pattern    *place // "pattern", which selects interfaces by address (lnetctl 11), or nil
}

// fileInterface is an item of "interfaces".
type fileInterface struct {
	place
	cpts *place // the interface's CPTs, or nil
}

// fileTunables is the mapping "tunables" of an NI. A tunable that is absent is nil.
type fileTunables struct {
	at                                                   place
	peerTimeout, peerCredits, peerBufferCredits, credits *int
	// hasLNDTunables is true if the mapping also contains tunables of the driver, as in exports of
	// Lustre 2.9 and 2.10.
	hasLNDTunables bool
}

// fileGlobals holds the members of "global". The map's keys are the current names, even if the file has
// an older name.
type fileGlobals map[string]member

// add adds the member m with the key name. If a file contains "global" several times, the last value of
// a key counts. It is an error if the file sets the same parameter in two ways, such as by its current
// and by an older name. An exception is numa_range with equal values, because exports of Lustre 2.9 have
// it also in "numa".
func (f fileGlobals) add(name string, m member) {
	if now := renamedGlobals[name]; now != "" {
		name = now
	}
	before, ok := f[name]
	exported := name == "numa_range" && ok && before.value.node.Value == m.value.node.Value
	if ok && before.at.path != m.at.path && !exported {
		m.reportRepeated(before)
	}
	f[name] = m
}

// fileLnetd holds the values of the section "lnetd". The subsections "selftest", "transport",
// "proxies" and "metrics" and the options of drivers are separate.
type fileLnetd struct {
	options map[string]place
	drivers map[lnet.NetType]Values
	// driverKeys holds the keys that the file contains for each driver. It may be nil.
	driverKeys map[lnet.NetType]map[string]bool
	selftest   map[string]place
	transport  map[string]place
	proxies    map[string]place
	metrics    map[string]place
	given      map[string]any // Given.Around, or nil
}

// fileSections holds for each section the function that adds it to a file. If a section occurs several
// times, they are applied one after the other, as in lnetctl.
var fileSections = map[string]func(*file, place){
	"net": func(f *file, at place) {
		for _, item := range at.optionalItems() {
			f.nets = append(f.nets, readNet(item))
		}
	},
	"peer":       func(f *file, at place) { f.peers = append(f.peers, at) },
	"peers":      func(f *file, at place) { f.peers = append(f.peers, at) },
	"route":      func(f *file, at place) { f.routes = append(f.routes, at) },
	"udsp":       func(f *file, at place) { f.rules = append(f.rules, at.optionalItems()...) },
	"selection":  func(f *file, at place) { f.typed = append(f.typed, at.optionalItems()...) },
	"routing":    func(f *file, at place) { f.routing = append(f.routing, readRouting(at)...) },
	"buffers":    func(f *file, at place) { f.buffers = readBuffers(at) },
	"numa":       (*file).numa,
	"global":     (*file).global,
	"lnetd":      (*file).lnetdSection,
	"ip2nets":    func(f *file, at place) { f.netRules = append(f.netRules, at.optionalItems()...) },
	"statistics": func(*file, place) {}, // state in older exports

	"use_tcp_bonding": (*file).tcpBonding,
}

// read divides all YAML documents of a file into sections and reports unknown keys.
func (r *reading) read(data []byte) file {
	f := file{
		globals: fileGlobals{},
		lnetd: fileLnetd{
			options: map[string]place{}, drivers: map[lnet.NetType]Values{},
			selftest: map[string]place{}, transport: map[string]place{}, proxies: map[string]place{}, metrics: map[string]place{},
		},
	}
	for _, doc := range r.documents(data) {
		if r.ctx.Err() != nil {
			break
		}
		if top := (place{file: r}).child("", doc); !top.empty() {
			f.sections(top)
		}
	}
	f.rules, f.typed = limitItems("udsp", f.rules), limitItems("selection", f.typed)
	return f
}

// eachRoute calls read for each item of "route", in order.
func (f *file) eachRoute(read func(at place)) {
	for _, at := range f.routes {
		at.eachItem(read)
	}
}

// sections returns the form of a whole document.
func (r *reading) sections() *shape {
	if r.top == nil {
		r.top = sections(r.drivers)
	}
	return r.top
}

func (f *file) sections(top place) {
	top.file.sections().check(top, nil)
	for _, m := range top.members(true) {
		f.any = true
		if read := fileSections[m.key]; read != nil {
			read(f, m.value)
		} else if _, ok := globalKeys[m.key]; ok { // the older form
			f.globals.add(m.key, m)
		}
	}
}

func (f *file) global(at place) {
	for _, m := range at.optionalMembers() {
		if _, ok := globalKeys[m.key]; ok {
			f.globals.add(m.key, m)
		}
	}
}

// tcpBonding ignores "use_tcp_bonding", which has no effect. It adds a warning if the value is true, as
// kernels do (lnet-core 13), or is not a boolean.
func (f *file) tcpBonding(at place) {
	if on, err := parseBool(at.node.Value); err != nil || on {
		at.warn("it has no effect: each interface of a tcp net is a separate NI").remedyf("remove it, or write 'use_tcp_bonding: 0'")
	}
}

// numa reads the section "numa", which is the older form of the global parameter numa_range.
func (f *file) numa(at place) {
	for _, m := range at.optionalMembers() {
		if m.key == "range" {
			f.globals.add("numa_range", m)
		}
	}
}

// optionalItems returns the items of a list. Unlike items, it accepts a key without a value.
func (p place) optionalItems() []place {
	if p.empty() {
		return nil
	}
	return p.items()
}

// optionalMembers returns the members of a mapping. Unlike members, it accepts a key without a value.
func (p place) optionalMembers() []member {
	if p.empty() {
		return nil
	}
	return p.members(false)
}

// readNet reads an item of "net". It ignores keys that describe state instead of configuration, such as
// the statistics in a full export.
func readNet(at place) fileNet {
	n := fileNet{at: at, name: at, direct: fileNI{at: at}}
	var named *member
	for _, m := range at.members(false) {
		switch m.key {
		case "net type", "net": // "net" in the Multi-Rail design
			if named != nil {
				m.reportRepeated(*named)
			}
			n.name, named = m.value, &m
		case "local NI(s)":
			n.list = true
			if m.value.isEmpty() {
				m.value.problemf("has no item").remedyf(`write "- interfaces: {0: eth0}" below it`)
			}
			for _, item := range m.value.optionalItems() {
				ni := fileNI{at: item}
				for _, m := range item.members(false) {
					ni.member(m)
				}
				n.nis = append(n.nis, ni)
			}
		default:
			n.direct.member(m)
		}
	}
	if named == nil {
		at.missing("net type", netText)
	}
	return n
}

// member stores the member m of an NI's mapping in ni.
func (ni *fileNI) member(m member) {
	switch m.key {
	case "interfaces":
		ni.setNames(m)
		for _, at := range m.value.values() {
			i := fileInterface{place: at.named("intf")}
			if cpts, ok := at.optionalMember("CPT"); ok && at.node.Kind == yaml.MappingNode {
				i.cpts = &cpts
			}
			ni.interfaces = append(ni.interfaces, i)
		}
		if m.value.isEmpty() {
			m.value.problemf("contains no interface").remedyf(`write "interfaces: {0: eth0}"`)
		}
	case "intf":
		ni.setNames(m)
		ni.interfaces = append(ni.interfaces, fileInterface{place: m.value})
	case "pattern":
		ni.pattern = &m.value
	case "nid":
		ni.nid = &m.value
	case "tunables":
		ni.tunables = readTunables(m.value)
	case "lnd tunables":
		ni.lnd = &m.value
	case "CPT":
		ni.cpts = &m.value
	case "proxy":
		ni.proxy = &m.value
	}
}

// setNames records the member that names the interfaces, "interfaces" or "intf". It reports a problem if
// both occur.
func (ni *fileNI) setNames(m member) {
	if ni.named != nil {
		m.reportRepeated(*ni.named)
	}
	ni.named = &m
}

func readTunables(at place) *fileTunables {
	t := &fileTunables{at: at}
	for _, m := range at.optionalMembers() {
		var into **int
		takes := api.CreditsRange
		switch m.key {
		case "peer_timeout":
			into, takes = &t.peerTimeout, api.PeerTimeoutRange
		case "peer_credits":
			into = &t.peerCredits
		case "peer_buffer_credits":
			into = &t.peerBufferCredits
		case "credits":
			into = &t.credits
		default:
			t.hasLNDTunables = true
			continue
		}
		if v, ok := m.value.in(takes); ok {
			*into = &v
		}
	}
	return t
}

// copyKnown copies the values of a mapping's members to into, by key, if known contains the key. Other
// keys are reported elsewhere.
func copyKnown[K any](at place, known map[string]K, into map[string]place) {
	for _, m := range at.optionalMembers() {
		if _, ok := known[m.key]; ok {
			into[m.key] = m.value
		}
	}
}

// lnetdSection reads the section "lnetd".
func (f *file) lnetdSection(at place) {
	for _, m := range at.optionalMembers() {
		f.lnetd.write(m)
		switch {
		case m.key == "selftest":
			copyKnown(m.value, selftestKeys, f.lnetd.selftest)
		case m.key == "transport":
			copyKnown(m.value, transportKeys, f.lnetd.transport)
		case m.key == "proxies":
			copyKnown(m.value, proxiesKeys, f.lnetd.proxies)
		case m.key == "metrics":
			copyKnown(m.value, metricsKeys, f.lnetd.metrics)
		case m.key == "selection":
			f.typed = append(f.typed, m.value.optionalItems()...)
		case moduleStrings[m.key] != nil:
			f.lnetd.options[m.key] = m.value
		default:
			if _, ok := lnetdKeys[m.key]; ok {
				f.lnetd.options[m.key] = m.value
				continue
			}
			f.driverOption(m)
		}
	}
}

// driverOption reads a member of "lnetd" that is an option of a driver, or a driver's whole section.
func (f *file) driverOption(m member) {
	drivers := m.value.file.drivers
	for k := range drivers {
		d := &drivers[k]
		own := slices.ContainsFunc(d.Own, func(o Option) bool { return o.Name == m.key })
		members, options := []member{m}, d.Own
		if m.key == d.Section {
			members, options = m.value.optionalMembers(), d.parameters()
		} else if !own {
			continue
		}
		f.lnetd.drivers[d.Type] = f.lnetd.drivers[d.Type].read(members, options)
		f.lnetd.noteKeys(d.Type, members)
		return
	}
}

// write records the value of a member that configures lnetd itself instead of the node.
func (f *fileLnetd) write(m member) {
	if !aroundKeys[m.key] || m.value.empty() {
		return
	}
	var v any
	if m.value.node.Decode(&v) != nil {
		return // reported when the value is read
	}
	if f.given == nil {
		f.given = map[string]any{}
	}
	f.given[m.key] = v
}

// noteKeys records that the file contains the given keys of the driver for type t.
func (f *fileLnetd) noteKeys(t lnet.NetType, members []member) {
	if f.driverKeys == nil {
		f.driverKeys = map[lnet.NetType]map[string]bool{}
	}
	if f.driverKeys[t] == nil {
		f.driverKeys[t] = map[string]bool{}
	}
	for _, m := range members {
		f.driverKeys[t][m.key] = true
	}
}
