package daemon

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// find returns the place of an NI by its names, or -1.
func (e *engines) find(ni *config.NI) int {
	for k := range e.nis {
		if o := &e.nis[k]; o.Net == ni.Net && o.Device == ni.Device && o.NID == ni.NID {
			return k
		}
	}
	return -1
}

// configured are the NIs that were brought up and those that wait, in order, in the form
// that resolve gives.
func (e *engines) configured() []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]config.NI, 0, len(e.nis))
	for k := range e.nis {
		out = append(out, e.nis[k].NI)
	}
	return out
}

// follow gives each NI that has followed its renamed device the new name, which is the one that
// works at the next start (decisions 98). An NI keeps its former name while another NI of its net
// has the new one.
func (e *engines) follow(infos []node.NIInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	renamed := e.renamed(infos)
	for e.dropOneTaken(renamed) {
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

// renamed returns the new names of the devices that were renamed, by the places of their NIs. mu
// is held.
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

// dropOneTaken removes a name that another NI of the net would have, too, and reports whether
// there was one. Names that devices exchange are not taken. mu is held.
func (e *engines) dropOneTaken(renamed map[int]string) bool {
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

// resolved returns NIs of a document in the form that have.NIs has: the same NI has the same
// names, and options that are the driver's default are left out. So two NIs that mean the same
// are equal. What the document leaves out has the default that the options said of the drivers
// give; kept are the options that the drivers of the node will have. The two differ if a driver
// cannot be replaced. NIs of a net have the common tunables of its first one (lnetctl 9.1).
func (e *engines) resolved(nis []config.NI, said, kept map[lnet.NetType]config.Values) []config.NI {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]config.NI, len(nis))
	first := map[lnet.Net]int{}
	for k := range nis {
		out[k] = e.resolve(&nis[k], said[nis[k].Net.Type()], kept[nis[k].Net.Type()])
		if f, ok := first[out[k].Net]; ok {
			out[k].Tunables = out[f].Tunables
		} else {
			first[out[k].Net] = k
		}
	}
	return out
}

// resolve is resolved for one NI. mu is held.
func (e *engines) resolve(ni *config.NI, said, kept config.Values) config.NI {
	out := *ni
	out.CPTs = knownCPTs(ni, e.cpts)
	d := e.table.of(ni.Net.Type())
	var has *localNI
	for k := range e.nis {
		if o := &e.nis[k]; o.Net == ni.Net && d.same(o, ni) {
			has = o
			out.Device, out.NID, out.Own = o.Device, o.NID, d.present(o)
		}
	}
	if d.Defaults == nil {
		return out
	}
	t, options := d.Defaults(said)
	fill(&out.Tunables.PeerCredits, t.PeerCredits)
	fill(&out.Tunables.PeerBufferCredits, t.PeerBufferCredits)
	fill(&out.Tunables.Credits, t.Credits)
	if out.Tunables.PeerTimeout < 0 {
		out.Tunables.PeerTimeout = t.PeerTimeout
	}
	out.Tunables.PeerCredits = min(out.Tunables.PeerCredits, out.Tunables.Credits)
	_, running := d.Defaults(e.values[d.Type])
	inForce, usual := d.Defaults(kept)
	fill(&out.Tunables.PeerBufferCredits, inForce.PeerBufferCredits) // an NI's 0 is the driver's
	out.Options = nil
	for name, text := range ni.Options {
		if options[name] != running[name] || !has.showsUnasked(name, text) {
			options[name] = text
		}
	}
	for name, text := range options {
		if text == usual[name] {
			continue
		}
		if out.Options == nil {
			out.Options = config.Values{}
		}
		out.Options[name] = text
	}
	return out
}

// optionsOf are all options of an NI with drivers of which values are set: its own, those that
// are in force without being asked for, and the driver's defaults; without those that the driver
// is to choose when the NI comes up.
func (e *engines) optionsOf(ni *config.NI, values map[lnet.NetType]config.Values) config.Values {
	d := e.table.of(ni.Net.Type())
	if d.Defaults == nil {
		return ni.Options
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, options := d.Defaults(values[d.Type])
	_, running := d.Defaults(e.values[d.Type])
	if k := e.find(ni); k >= 0 && e.nis[k].waits == nil {
		l := &e.nis[k]
		for name := range options {
			if _, asked := l.Options[name]; asked || options[name] != running[name] {
				continue
			}
			delete(options, name) // the driver may not show it
			if n, shown := l.shown[name]; shown {
				options[name] = strconv.FormatInt(n, 10)
			}
		}
	} else {
		maps.DeleteFunc(options, func(name, text string) bool { return text == "0" && slices.Contains(d.Chosen, name) })
	}
	maps.Copy(options, ni.Options)
	return options
}

// deviceOf is the device of an NI: the one that it names, or the one that it is on.
func (e *engines) deviceOf(ni *config.NI) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.find(ni); k >= 0 && e.nis[k].waits == nil {
		return e.nis[k].device
	}
	return ni.Device
}

func fill(to *int, n int) {
	if *to <= 0 {
		*to = n
	}
}

// showsUnasked reports whether an option is in force on an NI although it was not set, as
// the connections per peer that follow from the link's speed: its export has it, and means
// nothing by it.
func (l *localNI) showsUnasked(name, text string) bool {
	if l == nil {
		return false
	}
	_, asked := l.Options[name]
	n, shown := l.shown[name]
	return !asked && shown && strconv.FormatInt(n, 10) == text
}

// same reports whether a document's NI on the same net is one that there is, under any of
// its names. A document from before its device was renamed has the former name.
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
		nid, _, _ = d.Usable(ni) // zero: the interface is away
	}
	return nid == o.Own || nid.IsZero() && configured
}

// present is the NID that an NI which there is would have now: its own, but for one that is
// named by its interface, if that has other addresses by now.
func (d *Driver) present(o *localNI) lnet.NID {
	if d.Usable == nil || o.Own.IsZero() || o.Device == "" || !o.NID.IsZero() {
		return o.Own
	}
	now := config.NI{Net: o.Net, Device: o.Device}
	nid, _, err := d.Usable(&now)
	if err != nil {
		return o.Own // it is away, and may come back as it was
	}
	now.NID = o.Own
	if _, _, err := d.Usable(&now); err == nil {
		return o.Own
	}
	return nid
}

// told is a step for Commands, which do not name what is the default of drivers of which
// values are set.
func (e *engines) told(s config.Step, values map[lnet.NetType]config.Values) config.Step {
	c, ok := s.(config.Change[config.NI])
	if !ok || c.To == nil || c.From != nil {
		return s
	}
	plain := *c.To
	d := e.table.of(plain.Net.Type())
	if d.Defaults == nil {
		return s
	}
	t, _ := d.Defaults(values[d.Type])
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
