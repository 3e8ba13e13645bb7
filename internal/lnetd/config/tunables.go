package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// CheckTunables returns an error that names the first of the given tunables that NIs of the driver
// do not have, or that is out of range. With live set, it must also be one that can be changed
// while an NI is up.
func (d *DriverOptions) CheckTunables(given lnd.Values, live bool) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		t := d.Named(name)
		if t == nil || t.PerNet {
			return fmt.Errorf("the tunable %q does not exist", name)
		}
		if live && !t.Live {
			return fmt.Errorf("%s cannot be changed while an NI is up", name)
		}
		if err := t.Check(given[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// isLive reports whether an NI option can be changed while the NI is up. The timeout of a net can
// be changed without its driver.
func isLive(drivers []DriverOptions, t lnet.NetType, name string) bool {
	o := tableOf(drivers, t).Named(name)
	return o != nil && o.Live || name == timeoutOption
}

// Names reports whether n identifies the NI o, which may be up: by interface or NID or, if the
// driver has chosen for both, by the resulting NID.
func (n *NI) Names(o *NI) bool {
	return n.key() == o.key() || n.same(o) || o.same(n) || n.Net == o.Net && n.Own == o.Own && !n.Own.IsZero()
}
