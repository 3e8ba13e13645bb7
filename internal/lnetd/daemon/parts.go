package daemon

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// part is a part of the configuration of lnetd itself that is applied on its own. The key is its key in
// the section "lnetd"; several parts may have the same key.
type part struct {
	name, key string
	of        func(*config.Config) any // returns the value of the part, for comparison
	// put applies the part as configured in c to the running lnetd, and reports whether the new
	// value is in force. The caller must hold mu. If put is nil, a change of the part takes effect
	// only after a restart.
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
	{"proxies", "proxies", func(c *config.Config) any {
		p := c.Proxies
		p.Rules = nil
		return p
	}, nil},
	{"proxies: rules", "proxies", func(c *config.Config) any { return c.Proxies.Rules }, (*Daemon).setProxyRules},
	{"transport: rules", "transport", func(c *config.Config) any { return c.Transport.Rules }, (*Daemon).setRules},
}

// changedParts returns the parts in which c differs from the settings in force. If given is not nil,
// parts whose keys it does not contain are left out. The caller must hold mu.
func (d *Daemon) changedParts(c *config.Config, given map[string]bool) (list []part) {
	for _, p := range parts {
		if (given == nil || given[p.key]) && !reflect.DeepEqual(p.of(&d.loaded), p.of(c)) {
			list = append(list, p)
		}
	}
	return list
}

// foresee returns what putParts would change: in changes a shell comment for each key of the section
// "lnetd" that the document c changes, and in restart the names of the parts that need a restart. If
// given is not nil, other keys are left out.
func (d *Daemon) foresee(c *config.Config, given map[string]bool) (changes, restart []string) {
	before, after := d.section(nil, nil), d.section(c, given)
	d.mu.Lock()
	defer d.mu.Unlock()
	names, later := map[string]string{}, map[string]bool{}
	for _, p := range d.changedParts(c, given) {
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
			changes = append(changes, "# "+name+" (lnetd itself) changes")
		case later[key]:
			changes = append(changes, "# "+key+" (lnetd itself) changes at the next restart")
		default: // the document writes the same value in another way
			changes = append(changes, "# "+key+" (lnetd itself) changes")
		}
	}
	return changes, restart
}

// aroundKeys returns the keys of the section "lnetd" that all parts have together.
func aroundKeys() map[string]bool {
	keys := map[string]bool{}
	for _, p := range parts {
		keys[p.key] = true
	}
	return keys
}

// lnetdKeys returns the keys of the section "lnetd" that the document c contains. The result is never
// nil, because nil means all keys.
func lnetdKeys(c *config.Config) map[string]bool {
	if c.Given.Lnetd == nil {
		return map[string]bool{}
	}
	return c.Given.Lnetd
}

// section returns the settings of lnetd itself, by their keys in the section "lnetd". If c is nil, these
// are the present settings. Otherwise they are the settings after the document c has been applied. If
// given is nil, the document replaces all settings; otherwise it replaces only those whose keys are in
// given.
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
	delete(out, "log_level") // the level in force may come from "log set" instead
	if level != config.Default().LogLevel {
		out["log_level"] = nameOf(level)
	}
	return out
}

// writtenWith returns the value that d.written gets when the document c is applied. The meaning of
// given is that of section. The caller must hold mu.
func (d *Daemon) writtenWith(c *config.Config, given map[string]bool) map[string]any {
	out := map[string]any{}
	if given != nil {
		maps.Copy(out, d.written)
		maps.DeleteFunc(out, func(key string, _ any) bool { return given[key] })
	}
	maps.Copy(out, c.Given.Around)
	return out
}

// putParts applies the settings of lnetd itself in c. If given is not nil, it applies only those whose
// keys are in given. It returns the names of the parts that need a restart.
func (d *Daemon) putParts(c *config.Config, given map[string]bool) (left []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if given == nil || given["log_level"] {
		d.configured = c.LogLevel
	}
	d.written = d.writtenWith(c, given)
	for _, p := range d.changedParts(c, given) {
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

// setRules replaces the client rules. It returns false if lnetd hosts no clients or rejects the rules.
func (d *Daemon) setRules(c *config.Config) bool {
	if d.clients == nil {
		return false
	}
	s := d.clients.server.Load()
	if s == nil {
		return false
	}
	rules := c.Transport.Rules
	if err := s.SetRules(rules); err != nil { // the configuration was validated
		d.log.Error("new client rules were rejected; the previous rules stay in force", "err", err)
		return false
	}
	d.loaded.Transport.Rules = rules
	d.log.Info("new client rules apply to clients that connect from now on", "rules", len(rules))
	return true
}
