package config

import (
	"maps"
	"slices"
	"strconv"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnet"
)

// aroundKeys holds the keys of the section "lnetd" that configure lnetd itself instead of the
// node.
var aroundKeys = map[string]bool{
	"control_socket": true, "log_format": true, "log_level": true, "metrics": true, "metrics_addr": true,
	"proxies": true, "selftest": true, "transport": true,
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Section returns those settings of a node in state s that a document has in its section "lnetd", by
// key. It omits settings that have their default, and selection rules. The values are strings, ints,
// and lists and maps of these.
func (s *State) Section(drivers []DriverOptions) map[string]any {
	out := map[string]any{}
	for _, p := range parametersIn(parameters.Lnetd) {
		if v := p.get(&s.Parameters); v != p.Default {
			out[p.Name] = int(v)
		}
	}
	if s.Parameters.Discovery == discovery.Verify {
		out["discovery"] = discovery.Verify.String()
	}
	for k := range drivers {
		drivers[k].section(s.Drivers[drivers[k].Type], out)
	}
	if timeouts := s.lndTimeouts(); len(timeouts) > 0 {
		out["lnd_timeouts"] = timeouts
	}
	var locked []string
	for k := range s.Peers {
		if p := &s.Peers[k]; p.Locked {
			locked = append(locked, p.Primary.String())
		}
	}
	if len(locked) > 0 {
		slices.Sort(locked)
		out["lock_prim"] = locked
	}
	return out
}

// section adds the driver options v to the section "lnetd" in out.
func (d *DriverOptions) section(v Values, out map[string]any) {
	below := map[string]any{}
	for name, text := range v {
		var value any = text
		if n, err := strconv.Atoi(text); err == nil {
			value = n
		}
		if findOption(d.Own, name) != nil {
			out[name] = value
		} else {
			below[name] = value
		}
	}
	if len(below) > 0 {
		out[d.Section] = below
	}
}

// lndTimeouts returns the LND timeouts that were set for nets, as items of the key "lnd_timeouts", in
// the order of the nets' NIs.
func (s *State) lndTimeouts() (list []map[string]any) {
	done := map[lnet.Net]bool{}
	for k := range s.NIs {
		ni := &s.NIs[k]
		if n, ok := ni.Options[timeoutOption]; ok && !done[ni.Net] {
			list = append(list, map[string]any{"net": ni.Net.String(), "timeout": int(n)})
			done[ni.Net] = true
		}
	}
	return list
}

// SetLNDTimeouts sets the LND timeout of all NIs on the given nets, in seconds.
func (s *State) SetLNDTimeouts(timeouts map[lnet.Net]int) {
	if len(timeouts) == 0 {
		return
	}
	s.NIs = slices.Clone(s.NIs)
	for k := range s.NIs {
		if n, ok := timeouts[s.NIs[k].Net]; ok {
			s.NIs[k].Options = s.NIs[k].Options.With(timeoutOption, int64(n))
		}
	}
}

// WithOwn returns the driver options drivers, completed by options in others. It adds the options in
// DriverOptions.Own, such as ports, which belong to the host rather than to a node, unless drivers
// contains them.
func WithOwn(drivers, others map[lnet.NetType]Values, options []DriverOptions) map[lnet.NetType]Values {
	s := State{Drivers: drivers}
	for k := range options {
		d := &options[k]
		v := maps.Clone(drivers[d.Type])
		for i := range d.Own {
			name := d.Own[i].Name
			text, ok := others[d.Type][name]
			if _, given := v[name]; ok && !given {
				v = v.with(&d.Own[i], text)
			}
		}
		s.setDriver(d.Type, v)
	}
	return s.Drivers
}
