package daemon

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// find returns the index in e.nis of the NI with the same net, device and configured NID as ni, or -1
// if the node has no such NI.
func (e *engines) find(ni *config.NI) int {
	for k := range e.nis {
		if o := &e.nis[k]; o.Net == ni.Net && o.Device == ni.Device && o.NID == ni.NID {
			return k
		}
	}
	return -1
}

// configured returns all NIs of the node in order, both those that are up and those that wait for their
// interface. They have the form that resolved returns.
func (e *engines) configured() []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]config.NI, 0, len(e.nis))
	for k := range e.nis {
		out = append(out, e.nis[k].NI)
	}
	return out
}

// byOwnNID returns nis. An NI that names a device is replaced by the NID of the NI on that device if the
// latter was configured by its NID, without the name of a device.
func (e *engines) byOwnNID(nis []config.NI) []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.Clone(nis)
	for k := range out {
		i := slices.IndexFunc(e.nis, func(l localNI) bool {
			return l.Net == out[k].Net && l.Device == "" && l.device != "" && l.device == out[k].Device && !l.Own.IsZero()
		})
		if i >= 0 {
			out[k] = config.NI{Net: out[k].Net, NID: e.nis[i].Own, Where: out[k].Where}
		}
	}
	return out
}

// followRenames gives each NI whose device was renamed the device's new name, because the old name
// would not work at the next start (decisions 98). The argument infos describes the NIs that are up. An
// NI keeps its old name while another NI on its net has the new one.
func (e *engines) followRenames(infos []node.NIInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	renamed := e.renamed(infos)
	for e.dropTaken(renamed) {
	}
	for k, name := range renamed {
		l := &e.nis[k]
		l.device = name
		if l.Device != "" {
			l.former = cmp.Or(l.former, l.Device)
			l.Device = name
		}
	}
}

// renamed returns the new names of the devices that were renamed. The keys are the indices of their NIs
// in e.nis. The caller must hold mu.
func (e *engines) renamed(infos []node.NIInfo) map[int]string {
	names := map[int]string{}
	for k := range e.nis {
		l := &e.nis[k]
		at := slices.IndexFunc(infos, func(i node.NIInfo) bool { return i.NID == l.Own })
		if l.waits == nil && at >= 0 && infos[at].Device != l.device {
			names[k] = infos[at].Device
		}
	}
	return names
}

// dropTaken removes one entry from renamed whose new name another NI on the same net would have too. It
// returns false if no name is taken. Two devices that exchange their names do not conflict. The caller
// must hold mu.
func (e *engines) dropTaken(renamed map[int]string) bool {
	for k, name := range renamed {
		for o := range e.nis {
			if o != k && e.nis[k].Device != "" && e.nis[o].Net == e.nis[k].Net && cmp.Or(renamed[o], e.nis[o].Device) == name {
				delete(renamed, k)
				return true
			}
		}
	}
	return false
}

// options returns the options of the drivers, by net type. The caller must not change the map. options
// may be called at any time, also outside of changes.inTurn.
func (e *engines) options() map[lnet.NetType]config.Values {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.values
}

// resolved returns NIs of a document in a form in which they can be compared with those of the node.
// An NI that the node has gets the same names as there. Options that equal the driver's default are
// omitted. All NIs on a net get the common tunables of the first one (lnetctl 9.1).
//
// The map said holds the driver options that the document asks for; settings that the document omits
// get the defaults of drivers with these options. The map kept holds the options that the node's
// drivers will have. It differs from said if a driver cannot be replaced.
func (e *engines) resolved(nis []config.NI, said, kept map[lnet.NetType]config.Values) []config.NI {
	return e.resolveAll(nis, said, kept, false)
}

// resolvedOver is like resolved for a document that is added to the node's configuration. If the node
// already has an NI of the document, settings that the document omits keep their values (decisions
// 235).
func (e *engines) resolvedOver(nis []config.NI, said, kept map[lnet.NetType]config.Values) []config.NI {
	return e.resolveAll(nis, said, kept, true)
}

func (e *engines) resolveAll(nis []config.NI, said, kept map[lnet.NetType]config.Values, over bool) []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]config.NI, len(nis))
	first := map[lnet.Net]int{}
	for k := range nis {
		out[k] = e.resolve(&nis[k], said[nis[k].Net.Type()], kept[nis[k].Net.Type()], over)
		if f, ok := first[out[k].Net]; ok {
			out[k].Tunables = out[f].Tunables
		} else {
			first[out[k].Net] = k
		}
	}
	return out
}

// resolve does for one NI what resolved does, or what resolvedOver does if over is set. The arguments
// said and kept are the options of the NI's driver. The caller must hold mu.
func (e *engines) resolve(ni *config.NI, said, kept config.Values, over bool) config.NI {
	out := *ni
	out.CPTs = knownCPTs(ni, e.cpts)
	d := e.table.of(ni.Net.Type())
	var has, beside *localNI // has is the node's NI that ni describes; beside is any NI on the same net
	for k := range e.nis {
		o := &e.nis[k]
		if o.Net != ni.Net {
			continue
		}
		beside = o
		if d.same(o, ni) {
			has = o
			out.Device, out.NID, out.Own = o.Device, o.NID, d.present(o)
		}
	}
	if over && beside != nil {
		fillAll(&out.Tunables, beside.Tunables)
	}
	if over && has != nil && ni.CPTs == nil {
		out.CPTs = has.CPTs
	}
	if d.Defaults == nil {
		if over && has != nil {
			out.Options = maps.Clone(has.Options)
			for name, v := range ni.Options {
				out.Options = out.Options.With(name, v)
			}
		}
		return out
	}
	t, options := d.Defaults(said)
	if over && has != nil {
		_, options = d.Defaults(kept)
		maps.Copy(options, has.Options)
	}
	fillAll(&out.Tunables, t)
	out.Tunables.PeerCredits = min(out.Tunables.PeerCredits, out.Tunables.Credits)
	_, running := d.Defaults(e.values[d.Type])
	inForce, usual := d.Defaults(kept)
	fill(&out.Tunables.PeerBufferCredits, inForce.PeerBufferCredits) // 0 means the driver's value
	out.Options = nil
	replaced := !maps.Equal(kept, e.values[d.Type])
	for name, v := range ni.Options {
		switch asked, set := has.setting(name); {
		case replaced || !has.shows(d, name, v):
			options[name] = v
		case set:
			options[name] = asked // v is only what the driver has made of the value asked
		case options[name] != running[name]:
			options[name] = v
		}
	}
	for name, v := range options {
		if v != usual[name] {
			out.Options = out.Options.With(name, v)
		}
	}
	return out
}

// shownTunables returns the driver's tunables of the NI i, which is up, in the order in which commands
// print them (lnetctl 5.1 item 8).
func (e *engines) shownTunables(i *node.NIInfo) []api.Tunable {
	d := e.table.of(i.Net.Type())
	e.mu.Lock()
	values := e.values[d.Type]
	e.mu.Unlock()
	return d.listed(d.show(i, values))
}

// optionsOf returns the values of all options of an NI: the options that the NI sets, those that the
// driver has chosen for it, and for the others the defaults of a driver with the options in values. If
// the NI is not up, it omits options that the driver will choose.
func (e *engines) optionsOf(ni *config.NI, values map[lnet.NetType]config.Values) lnd.Values {
	d := e.table.of(ni.Net.Type())
	if d.Defaults == nil {
		return ni.Options
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, options := d.Defaults(values[d.Type])
	_, running := d.Defaults(e.values[d.Type])
	var l *localNI
	if k := e.find(ni); k >= 0 && e.nis[k].waits == nil {
		l = &e.nis[k]
	}
	maps.DeleteFunc(options, func(name string, v int64) bool {
		t := d.Named(name)
		_, asked := l.setting(name)
		if l == nil || asked || v != running[name] {
			return l == nil && v == 0 && t.Auto || !t.Shows(v, v)
		}
		n, shown := l.shown[name]
		options[name] = n
		return !shown
	})
	maps.Copy(options, ni.Options)
	return options
}

// proxyOf returns the name of the proxies that may serve the NI with the given NID, or "" if all may.
func (e *engines) proxyOf(nid lnet.NID) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := slices.IndexFunc(e.nis, func(l localNI) bool { return l.Own == nid })
	if k < 0 {
		return ""
	}
	return e.nis[k].Proxy
}

// deviceOf returns the device on which an NI is up. If it is not up, deviceOf returns its configured
// device, which may be empty.
func (e *engines) deviceOf(ni *config.NI) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.find(ni); k >= 0 && e.nis[k].waits == nil {
		return e.nis[k].device
	}
	return ni.Device
}

// fillAll replaces each tunable in to that stands for "the driver's default" by the value in from.
func fillAll(to *lnd.Tunables, from lnd.Tunables) {
	fill(&to.PeerCredits, from.PeerCredits)
	fill(&to.PeerBufferCredits, from.PeerBufferCredits)
	fill(&to.Credits, from.Credits)
	if to.PeerTimeout < 0 {
		to.PeerTimeout = from.PeerTimeout
	}
}

func fill(to *int, n int) {
	if *to <= 0 {
		*to = n
	}
}

// shows reports whether an export of the NI l has the value v for an option. This value is the one in
// force, which can differ from the value that was set: the driver may derive the connections per peer
// from the link speed, or limit a number. For the timeout of a net, shows always returns false,
// because its value can change without being set. l may be nil.
func (l *localNI) shows(d *Driver, name string, v int64) bool {
	if t := d.Named(name); l == nil || t != nil && t.PerNet {
		return false
	}
	n, shown := l.shown[name]
	return shown && n == v
}

// setting returns the value that was set for an option of the NI, and false if none was. l may be nil.
func (l *localNI) setting(name string) (int64, bool) {
	if l == nil {
		return 0, false
	}
	v, ok := l.Options[name]
	return v, ok
}

// same reports whether ni, an NI of a document, is the node's NI o. Both must be on the same net. ni may
// identify o by its device, by the device's former name, or by its NID.
func (d *Driver) same(o *localNI, ni *config.NI) bool {
	if o.Device == ni.Device && o.NID == ni.NID {
		return true
	}
	configured := ni.Device != "" && (ni.Device == o.Device || ni.Device == o.former)
	if o.Own.IsZero() || ni.Device != "" && ni.Device != o.device && !configured {
		return false // ni names another device, or o was never up and has no NID to compare
	}
	nid := ni.NID
	if nid.IsZero() && d.Usable != nil {
		nid, _, _ = d.Usable(ni) // zero if the interface is missing
	}
	return nid == o.Own || nid.IsZero() && configured
}

// present returns the NID that the node's NI o would get if it were brought up again now. It differs
// from the NID that o has only if o is configured by its interface and the interface has lost that
// address and has another one.
func (d *Driver) present(o *localNI) lnet.NID {
	if d.Usable == nil || o.Own.IsZero() || o.Device == "" || !o.NID.IsZero() {
		return o.Own
	}
	now := config.NI{Net: o.Net, Device: o.Device}
	nid, _, err := d.Usable(&now)
	if err != nil {
		return o.Own // the interface is missing, and may return with the same address
	}
	now.NID = o.Own
	if _, _, err := d.Usable(&now); err == nil {
		return o.Own
	}
	return nid
}

// commandStep returns s in the form from which Commands makes the right commands. The map values holds
// the options that the drivers will have. For an NI to be added, tunables that equal the driver's
// defaults are omitted. For an NI to be changed, options that return to the driver's default are set
// to that value, because no command removes an option.
func (e *engines) commandStep(s config.Step, values map[lnet.NetType]config.Values) config.Step {
	c, ok := s.(config.Change[config.NI])
	if !ok || c.To == nil {
		return s
	}
	plain := *c.To
	d := e.table.of(plain.Net.Type())
	if d.Defaults == nil {
		return s
	}
	t, usual := d.Defaults(values[d.Type])
	if c.From != nil { // set options that return to the driver's default
		for name := range c.From.Options {
			if _, set := plain.Options[name]; !set {
				plain.Options = plain.Options.With(name, usual[name])
			}
		}
		c.To = &plain
		return c
	}
	for _, n := range []struct{ value, usual *int }{
		{&plain.Tunables.PeerCredits, &t.PeerCredits}, {&plain.Tunables.PeerBufferCredits, &t.PeerBufferCredits},
		{&plain.Tunables.Credits, &t.Credits},
	} {
		if *n.value == *n.usual {
			*n.value = 0
		}
	}
	if plain.Tunables.PeerTimeout == t.PeerTimeout {
		plain.Tunables.PeerTimeout = -1
	}
	c.To = &plain
	return c
}
