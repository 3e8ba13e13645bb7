package daemon

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lnetd/lnetd/internal/config"
)

// part is a part of a configuration around the node, with the key of "lnetd" that says it.
type part struct {
	name, key string
	of        func(*config.Config) any
	// put has what c says hold from now on, and returns whether it does. mu is held. Nil:
	// that takes a restart.
	put func(d *Daemon, c *config.Config) bool
}

var parts = []part{
	{"control_socket", "control_socket", func(c *config.Config) any { return c.ControlSocket }, nil},
	{"metrics_addr", "metrics_addr", func(c *config.Config) any { return c.MetricsAddr }, nil},
	{"metrics", "metrics", func(c *config.Config) any { return c.Metrics }, nil},
	{"log_format", "log_format", func(c *config.Config) any { return c.LogFormat }, nil},
	{"log_level", "log_level", func(c *config.Config) any { return c.LogLevel }, (*Daemon).putLevel},
	{"selftest", "selftest", func(c *config.Config) any { return c.Selftest }, nil},
	{"transport", "transport", func(c *config.Config) any {
		t := c.Transport
		t.Rules = nil
		return t
	}, nil},
	{"transport: rules", "transport", func(c *config.Config) any { return c.Transport.Rules }, (*Daemon).putRules},
}

// partsThatDiffer are the parts of which c says something else than what holds: all, or
// those with a key that is given. mu is held.
func (d *Daemon) partsThatDiffer(c *config.Config, given map[string]bool) (list []part) {
	for _, p := range parts {
		if (given == nil || given[p.key]) && !reflect.DeepEqual(p.of(&d.loaded), p.of(c)) {
			list = append(list, p)
		}
	}
	return list
}

// foresee says which keys of the section "lnetd" change with a document, all or those that are
// given, and which parts take a restart.
func (d *Daemon) foresee(c *config.Config, given map[string]bool) (changes, restart []string) {
	before, after := d.section(nil, nil), d.section(c, given)
	d.mu.Lock()
	defer d.mu.Unlock()
	names, later := map[string]string{}, map[string]bool{}
	for _, p := range d.partsThatDiffer(c, given) {
		if p.put != nil {
			names[p.key] = p.name
			continue
		}
		restart = append(restart, p.name)
		later[p.key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(aroundKeys())) {
		if reflect.DeepEqual(before[key], after[key]) {
			continue
		}
		switch name, atOnce := names[key]; {
		case atOnce:
			changes = append(changes, "# "+name+" changes, of lnetd itself")
		case later[key]:
			changes = append(changes, "# "+key+" changes, of lnetd itself, with a restart")
		default: // it is only written otherwise
			changes = append(changes, "# "+key+" changes, of lnetd itself")
		}
	}
	return changes, restart
}

// aroundKeys are the keys of all parts.
func aroundKeys() map[string]bool {
	keys := map[string]bool{}
	for _, p := range parts {
		keys[p.key] = true
	}
	return keys
}

// lnetdKeys are the keys of "lnetd" that a document has; never nil.
func lnetdKeys(c *config.Config) map[string]bool {
	if c.Given.Lnetd == nil {
		return map[string]bool{}
	}
	return c.Given.Lnetd
}

// section is what the section "lnetd" says around the node: as it is, or as it would be with a
// document, by all keys or by those that are given.
func (d *Daemon) section(c *config.Config, given map[string]bool) map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, level := maps.Clone(d.written), d.loaded.LogLevel
	if c != nil {
		out = d.writtenWith(c, given)
		if given == nil || given["log_level"] {
			level = c.LogLevel
		}
	}
	if out == nil {
		out = map[string]any{}
	}
	delete(out, "log_level") // "log set" changes it too
	if level != config.Default().LogLevel {
		out["log_level"] = nameOf(level)
	}
	return out
}

// writtenWith is what is written around the node once a document is in force. mu is held.
func (d *Daemon) writtenWith(c *config.Config, given map[string]bool) map[string]any {
	out := map[string]any{}
	if given != nil {
		maps.Copy(out, d.written)
		maps.DeleteFunc(out, func(key string, _ any) bool { return given[key] })
	}
	maps.Copy(out, c.Given.Around)
	return out
}

// putParts puts in force what c says around the node, of all keys or of those that are given, and
// returns the names of the parts that take a restart.
func (d *Daemon) putParts(c *config.Config, given map[string]bool) (left []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if given == nil || given["log_level"] {
		d.configured = c.LogLevel
	}
	d.written = d.writtenWith(c, given)
	for _, p := range d.partsThatDiffer(c, given) {
		if p.put == nil || !p.put(d, c) {
			left = append(left, p.name)
		}
	}
	return left
}

func (d *Daemon) putLevel(c *config.Config) bool {
	if d.level == nil {
		return false
	}
	d.setLevel(c.LogLevel)
	d.loaded.LogLevel = c.LogLevel
	return true
}

// putRules puts other rules for clients in force, if clients are served.
func (d *Daemon) putRules(c *config.Config) bool {
	if d.clients == nil {
		return false
	}
	s := d.clients.server.Load()
	if s == nil {
		return false
	}
	rules := c.Transport.Rules
	if err := s.SetRules(rules); err != nil { // the configuration was checked
		d.log.Error("rules for clients do not hold", "err", err)
		return false
	}
	d.loaded.Transport.Rules = rules
	d.log.Info("rules for clients hold from now on for those who connect", "rules", len(rules))
	return true
}
