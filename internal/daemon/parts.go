package daemon

import (
	"maps"
	"reflect"

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

// foresee says which parts of a document change when it is put in force, and which with a
// restart.
func (d *Daemon) foresee(c *config.Config) (changes, restart []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.partsThatDiffer(c, lnetdKeys(c)) {
		if p.put == nil {
			restart = append(restart, p.name)
		} else {
			changes = append(changes, "# "+p.name+" changes, of lnetd itself")
		}
	}
	return changes, restart
}

// lnetdKeys are the keys of "lnetd" that a document has; never nil.
func lnetdKeys(c *config.Config) map[string]bool {
	if c.Given.Lnetd == nil {
		return map[string]bool{}
	}
	return c.Given.Lnetd
}

// section is what the section "lnetd" says around the node: as it is, or, with a document, as it
// would be when those parts have changed that can change without a restart.
func (d *Daemon) section(c *config.Config) map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, level := maps.Clone(d.written), d.loaded.LogLevel
	if out == nil {
		out = map[string]any{}
	}
	if c != nil {
		for _, p := range d.partsThatDiffer(c, lnetdKeys(c)) {
			if p.put != nil {
				out[p.key] = c.Given.Around[p.key]
			}
		}
		if lnetdKeys(c)["log_level"] {
			level = c.LogLevel
		}
	}
	delete(out, "log_level") // "log set" changes it too
	if level != config.Default().LogLevel {
		out["log_level"] = nameOf(level)
	}
	return out
}

// putParts has hold what c says around the node, of all or of what is given, and returns the
// names of the parts that take a restart.
func (d *Daemon) putParts(c *config.Config, given map[string]bool) (left []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if given == nil || given["log_level"] {
		d.configured = c.LogLevel
	}
	written := maps.Clone(d.written)
	maps.DeleteFunc(written, func(key string, _ any) bool { return given == nil || given[key] })
	if written == nil {
		written = map[string]any{}
	}
	maps.Copy(written, c.Given.Around)
	d.written = written
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

// putRules has other rules for clients hold, if there is somebody for whom they can.
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
