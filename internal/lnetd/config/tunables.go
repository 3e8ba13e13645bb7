package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// CheckTunables returns an error for the first of the given tunables, by name, that NIs of the driver do
// not have or whose value is out of range. If live is set, it also returns an error for a tunable that
// cannot be changed while an NI is up.
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

// isLive reports whether an option of an NI on a net of type t can be changed while the NI is up. The
// timeout of a net always can, because the driver is not involved.
func isLive(drivers []DriverOptions, t lnet.NetType, name string) bool {
	o := tableOf(drivers, t).Named(name)
	return o != nil && o.Live || name == timeoutOption
}

// Names reports whether n and o are the same NI, although they may be configured by different names: by
// the interface, by the NID, or only by the net. In the last case the NIDs that they have when up are
// compared.
func (n *NI) Names(o *NI) bool {
	return n.key() == o.key() || n.same(o) || o.same(n) || n.Net == o.Net && n.Own == o.Own && !n.Own.IsZero()
}
