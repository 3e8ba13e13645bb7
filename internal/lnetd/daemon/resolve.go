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

// find returns the index of the NI with the same names, or -1.
func (e *engines) find(ni *config.NI) int {
	for k := range e.nis {
		if o := &e.nis[k]; o.Net == ni.Net && o.Device == ni.Device && o.NID == ni.NID {
			return k
		}
	}
	return -1
}

// configured returns the NIs that are up or wait, in order. Their names, tunables and options are
// resolved (see resolved).
func (e *engines) configured() []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]config.NI, 0, len(e.nis))
	for k := range e.nis {
		out = append(out, e.nis[k].NI)
	}
	return out
}

// followRenames updates the device names of NIs whose device was renamed, because the new name is the
// one that works at the next start (decisions 98). An NI keeps its former name while another NI
// of its net has the new one.
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

// renamed returns the new names of renamed devices, by the index of their NI. The caller must
// hold mu.
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

// dropTaken removes a name that another NI of the net would have too, and reports whether it
// found one. Names that devices exchange do not conflict. The caller must hold mu.
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

// resolved returns NIs of a document in the form that configured returns. The same NI gets the
// same names, and options with the driver's default are omitted, so that NIs with the same
// meaning are equal. Settings that the document omits get the defaults of drivers with the
// options said. The options kept are those that the node's drivers will have. They differ from
// said if a driver cannot be replaced. All NIs of a net get the common tunables of its first one
// (lnetctl 9.1).
func (e *engines) resolved(nis []config.NI, said, kept map[lnet.NetType]config.Values) []config.NI {
	return e.resolveAll(nis, said, kept, false)
}

// resolvedOver is resolved for NIs that are added to those of the node: settings that the document
// omits are those of the existing NI, if there is one (decisions 235).
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

// resolve is like resolved for one NI or, with over set, like resolvedOver. The caller must hold mu.
func (e *engines) resolve(ni *config.NI, said, kept config.Values, over bool) config.NI {
	out := *ni
	out.CPTs = knownCPTs(ni, e.cpts)
	d := e.table.of(ni.Net.Type())
	var has, beside *localNI // beside is an NI of the net
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
			options[name] = asked // the driver has made v of it
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

// shownTunables returns the driver's tunables of an NI in order (lnetctl 5.1 item 8).
func (e *engines) shownTunables(i *node.NIInfo) []api.Tunable {
	d := e.table.of(i.Net.Type())
	e.mu.Lock()
	values := e.values[d.Type]
	e.mu.Unlock()
	return d.listed(d.show(i, values))
}

// optionsOf returns all options of an NI for drivers with the given options: its own, those in
// force without being set, and the driver's defaults. It omits options that the driver chooses
// when the NI comes up.
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

// deviceOf returns the device that an NI is on, or else the one that it names.
func (e *engines) deviceOf(ni *config.NI) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.find(ni); k >= 0 && e.nis[k].waits == nil {
		return e.nis[k].device
	}
	return ni.Device
}

// fillAll sets those tunables that are the driver's default.
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

// shows reports whether an option with the value v is in force on an existing NI, so that it is in an
// export. It may be other than its setting: the connections per peer may follow from the link speed,
// and a driver may limit a number. The timeout of a net is never taken for in force, because it may
// change later without being set. l may be nil.
func (l *localNI) shows(d *Driver, name string, v int64) bool {
	if t := d.Named(name); l == nil || t != nil && t.PerNet {
		return false
	}
	n, shown := l.shown[name]
	return shown && n == v
}

// setting returns the value to which an option of the NI was set. l may be nil.
func (l *localNI) setting(name string) (int64, bool) {
	if l == nil {
		return 0, false
	}
	v, ok := l.Options[name]
	return v, ok
}

// same reports whether a document's NI is the existing NI o on the same net, whichever of o's
// names it uses. A document from before the device was renamed has the former name.
func (d *Driver) same(o *localNI, ni *config.NI) bool {
	if o.Device == ni.Device && o.NID == ni.NID {
		return true
	}
	configured := ni.Device != "" && (ni.Device == o.Device || ni.Device == o.former)
	if o.Own.IsZero() || ni.Device != "" && ni.Device != o.device && !configured {
		return false // an NI that waits has no other names
	}
	nid := ni.NID
	if nid.IsZero() && d.Usable != nil {
		nid, _, _ = d.Usable(ni) // zero if the interface is missing
	}
	return nid == o.Own || nid.IsZero() && configured
}

// present returns the NID that an existing NI would have now. This is its own NID, unless the NI
// is configured by its interface and the interface has other addresses now.
func (d *Driver) present(o *localNI) lnet.NID {
	if d.Usable == nil || o.Own.IsZero() || o.Device == "" || !o.NID.IsZero() {
		return o.Own
	}
	now := config.NI{Net: o.Net, Device: o.Device}
	nid, _, err := d.Usable(&now)
	if err != nil {
		return o.Own // it is missing, and may return unchanged
	}
	now.NID = o.Own
	if _, _, err := d.Usable(&now); err == nil {
		return o.Own
	}
	return nid
}

// commandStep returns the step in a form for Commands. An NI to be added is without the tunables that are the
// defaults of drivers with the given options; one to be changed has those that become defaults.
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
	if c.From != nil { // a tunable that gets the driver's value again is set to that value
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
