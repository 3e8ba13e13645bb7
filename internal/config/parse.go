package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// Parse reads a configuration file called name. The error joins everything
// that is wrong in it, one line each, as "name:line: key: what".
func Parse(name string, data []byte) (Config, error) {
	c, _, err := parse(name, data)
	return c, err
}

func parse(name string, data []byte) (Config, *reading, error) {
	r := &reading{name: name, seen: map[string]bool{}}
	f := r.read(data)
	c := Default()
	for _, n := range f.nets {
		c.addNet(n)
	}
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
		if err := c.Socklnd.Validate(); err != nil {
			r.problems = append(r.problems, &problem{file: name, path: "lnetd", text: err.Error()})
		}
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
	for _, item := range items {
		tunables, lndTunables := item.tunables, item.lnd
		if tunables == nil {
			tunables = f.own.tunables
		}
		if lndTunables == nil {
			lndTunables = f.own.lnd
		}
		t := tunables.tunables()
		if common == nil {
			common = &t
		} else if *common != t {
			item.at.warn("All tunables of NIs of a net should be the same; those of the first NI hold")
		}
		for _, ni := range item.places(n) {
			ni.Tunables = *common
			ni.Options = lndTunables.options()
			c.NIs = append(c.NIs, ni)
		}
	}
}

// places returns an NI for each interface that is named, or one for the NID.
func (ni *fileNI) places(n lnet.Net) []lnd.Config {
	var out []lnd.Config
	for _, at := range ni.interfaces {
		name, ok := at.text()
		if !ok {
			continue
		}
		device, err := deviceName(name)
		if err != nil {
			at.wrong("%v", err)
			continue
		}
		out = append(out, lnd.Config{Net: n, Device: device})
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
	return []lnd.Config{{Net: n, NID: nid}}
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

// options turns "lnd tunables" into socklnd's options for one NI.
func (f *fileLND) options() any {
	if f == nil || f.connsPerPeer == nil && f.tos == nil {
		return nil
	}
	o := socklnd.Options{ConnsPerPeer: -1}
	if f.connsPerPeer != nil {
		if n, ok := f.connsPerPeer.number(0, 127); ok {
			o.ConnsPerPeer = n
		}
	}
	if f.tos != nil {
		if n, ok := f.tos.anyNumber(); ok {
			n = max(-1, min(n, 255))
			o.TOS = &n
		}
	}
	return o
}
