package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Parse reads a configuration file called name, in which the options of drivers
// may stand. The error joins everything that is wrong in it, one line each, as
// "name:line: key: what".
func Parse(name string, data []byte, drivers []DriverOptions) (Config, error) {
	c, _, err := parse(name, data, drivers)
	return c, err
}

func parse(name string, data []byte, drivers []DriverOptions) (Config, *reading, error) {
	r := &reading{name: name, drivers: drivers, seen: map[string]bool{}}
	f := r.read(data)
	c := Default()
	for _, n := range f.nets {
		c.addNet(n)
	}
	c.addNetRules(f.netRules)
	c.applyGlobals(f.globals)
	c.applyLnetd(&f)
	c.addPeers(f.peers)
	for _, at := range f.routes {
		c.addRoute(at)
	}
	c.addRules(f.rules)
	c.addTypedRules(f.typed)
	c.applyRouting(&f)
	if len(r.problems) == 0 {
		r.checkDrivers(&c)
	}
	inOrder(r.problems)
	inOrder(r.warnings)
	var errs []error
	for _, p := range r.problems {
		errs = append(errs, p)
	}
	for _, w := range r.warnings {
		c.Warnings = append(c.Warnings, w.Error())
	}
	return c, r, errors.Join(errs...)
}

// checkDrivers has each driver judge what is set of it.
func (r *reading) checkDrivers(c *Config) {
	for k := range r.drivers {
		d := &r.drivers[k]
		if d.Check == nil {
			continue
		}
		if err := d.Check(c.Drivers[d.Type]); err != nil {
			r.problems = append(r.problems, &problem{file: r.name, path: "lnetd", text: err.Error()})
		}
	}
}

// inOrder sorts by line: keys have been looked at in any order.
func inOrder(p []*problem) {
	slices.SortStableFunc(p, func(a, b *problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.path, b.path))
	})
}

// addNet adds the NIs of one net block (lnetctl 9.1).
func (c *Config) addNet(f fileNet) {
	if f.name.node == f.at.node {
		return // noted already
	}
	name, ok := f.name.text()
	if !ok {
		return
	}
	n, err := lnet.ParseNet(name)
	if err != nil {
		f.name.wrong("%v", err)
		return
	}
	if n.Type() == lnet.TypeLO {
		return // it is there without being asked for
	}
	items := f.nis
	if !f.list {
		items = []fileNI{f.own}
	}
	var common *lnd.Tunables
	ownOptions := f.own.options(n)
	for _, item := range items {
		tunables, options := item.tunables, ownOptions
		if tunables == nil {
			tunables = f.own.tunables
		}
		if item.lnd != nil && f.list {
			options = item.options(n)
		}
		t := tunables.tunables()
		if common == nil {
			common = &t
		} else if *common != t {
			item.at.warn("All tunables of NIs of a net should be the same; those of the first NI hold")
		}
		for _, ni := range item.places(n) {
			ni.Tunables = *common
			ni.Options = maps.Clone(options)
			c.NIs = append(c.NIs, ni)
		}
	}
}

// places returns an NI for each interface that is named, or one for the NID.
func (ni *fileNI) places(n lnet.Net) []NI {
	var out []NI
	for _, at := range ni.interfaces {
		if device, ok := at.device(); ok {
			out = append(out, NI{Net: n, Device: device})
		}
	}
	if len(ni.interfaces) > 0 {
		return out
	}
	if ni.nid == nil {
		ni.at.wrong("neither \"interfaces\" nor \"nid\" is given")
		return nil
	}
	text, ok := ni.nid.text()
	if !ok {
		return nil
	}
	nid, err := lnet.ParseNID(text)
	switch {
	case err != nil:
		ni.nid.wrong("%v", err)
		return nil
	case nid.Net() != n:
		ni.nid.wrong("%s is not on net %s", nid, n)
		return nil
	}
	return []NI{{Net: n, NID: nid}}
}

// device reads the name of an interface.
func (p place) device() (string, bool) {
	s, ok := p.text()
	if !ok {
		return "", false
	}
	name, err := deviceName(s)
	if err != nil {
		p.wrong("%v", err)
	}
	return name, err == nil
}

// deviceName takes an interface's name without a CPT expression behind it.
func deviceName(s string) (string, error) {
	name, cpts, has := strings.Cut(s, "[")
	switch {
	case has && !strings.HasSuffix(cpts, "]"):
		return "", fmt.Errorf("interface %q: the bracket is not closed", s)
	case name == "" || strings.ContainsAny(name, " \t/,"):
		return "", fmt.Errorf("interface %q: not the name of an interface", s)
	case has:
		if err := checkCPTs("[" + cpts); err != nil {
			return "", fmt.Errorf("interface %q: %w", s, err)
		}
	}
	return name, nil
}

// tunables fills what is not given with "the driver's default".
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

// options reads "lnd tunables" for a net, if they are there, and if there is a
// driver for it.
func (ni *fileNI) options(n lnet.Net) Values {
	if ni.lnd == nil {
		return nil
	}
	var tunables []Option
	for k := range ni.lnd.file.drivers {
		if d := &ni.lnd.file.drivers[k]; d.Type == n.Type() {
			tunables = d.Tunables
		}
	}
	return Values(nil).read(ni.lnd.optionalMembers(), tunables, func(m member) {
		m.value.warn("Ignoring unrecognized key '%s' for 'lnd tunables'", m.key)
	})
}
