package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// AddNet implements server.Backend. It adds NIs to the node. NIs on a net that the node already has
// get the common tunables of that net (lnetctl 4.2).
func (b *backend) AddNet(ctx context.Context, r api.NetAddition) (warnings []string, _ error) {
	if b.LNetDown() {
		return nil, networkDown()
	}
	nis, warnings, err := b.additions(&r)
	if err != nil {
		return nil, err
	}
	have, err := b.node.runningState(ctx)
	if err != nil {
		return nil, err
	}
	for k := range nis {
		if err := b.checkAddition(&have, nis[:k], &nis[k]); err != nil {
			return nil, err
		}
	}
	want, _, err := config.Add(&have, "", &config.Config{State: config.State{
		NIs: nis, Parameters: have.Parameters, Routing: have.Routing, Buffers: have.Buffers, Drivers: have.Drivers,
	}}, b.node.drivers.Options())
	if err != nil {
		return nil, netRefused(syscall.ENOSPC, "cannot add LNet NI", err.Error(), "to list the NIs, use: lnetdctl net show")
	}
	return warnings, b.node.apply(ctx, config.Diff(&have, &want, b.node.drivers.Options()), false)
}

// checkAddition returns an error for an operator if ni conflicts with an NI of the state have or with
// one of the NIs before, which are added together with it, or if routes lead to its net.
func (b *backend) checkAddition(have *config.State, before []config.NI, ni *config.NI) error {
	const text = "cannot add LNet NI"
	for _, o := range slices.Concat(have.NIs, before) {
		if ni.Names(&o) || !ni.Own.IsZero() && ni.Own == o.Own {
			return netRefused(syscall.EEXIST, text, thereIs(&o, b.node.engines.waitsFor(&o)), remedyThereIs(&o))
		}
	}
	if slices.ContainsFunc(have.Routes, func(r config.Route) bool { return r.Net == ni.Net }) {
		return netRefused(syscall.EUSERS, text, fmt.Sprintf("routes lead to %s", ni.Net), "delete the routes first: lnetdctl route del --net "+ni.Net.String())
	}
	return nil
}

// thereIs returns the text that the NI o already exists, for an error about an NI that conflicts with
// it. If o is waiting for its interface because of the error waits, the text contains the cause.
func thereIs(o *config.NI, waits error) string {
	text := fmt.Sprintf("the NI %s already exists", o)
	switch {
	case waits != nil:
		text += ", which is waiting: " + causeOf(waits)
	case !o.Own.IsZero() && o.Own != o.NID:
		text += ", with the NID " + o.Own.String()
	}
	return text
}

// remedyThereIs returns what an operator can do about an NI that conflicts with the existing NI o.
func remedyThereIs(o *config.NI) string {
	which := "--net " + o.Net.String() + " --if " + o.Device
	switch {
	case !o.Own.IsZero():
		which = "--nid " + o.Own.String()
	case o.Device == "":
		which = "--nid " + o.NID.String()
	}
	return "a net can have each interface and each NID only once: omit this NI, or delete the other one first: lnetdctl net del " + which
}

func netRefused(errno syscall.Errno, text, cause, remedy string) error {
	return &api.Fault{Code: api.CodeNetRefused, Errno: -int(errno), Text: text, Cause: cause, Remedy: remedy}
}

// additions returns the NIs that r asks to add, resolved for this host, and warnings about them.
func (b *backend) additions(r *api.NetAddition) (_ []config.NI, warnings []string, _ error) {
	ni, err := b.template(r)
	if err != nil {
		return nil, nil, err
	}
	var nis []config.NI
	switch {
	case r.IP2Nets != "":
		rules, err := lnet.ParseIP2Nets(r.IP2Nets)
		if err != nil {
			return nil, nil, api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "cannot parse ip2nets"}.Because(err)
		}
		site := config.Site{IP2Nets: rules}
		s, err := b.node.resolvedState(&config.Config{Site: site})
		if err != nil {
			return nil, nil, err
		}
		for _, text := range b.node.mismatches(&site) {
			warnings = append(warnings, text+"; "+mismatchRemedy)
		}
		for _, n := range s.NIs {
			if err := b.node.drivers.checkProxy(r.Proxy, n.Net.Type()); err != nil {
				return nil, nil, err
			}
			one := ni
			one.Net, one.Device, one.NID = n.Net, n.Device, n.NID
			if n.CPTs != nil {
				one.CPTs = n.CPTs // the CPTs in the rule take precedence over the option of the command
			}
			nis = append(nis, one)
		}
	case !r.NID.IsZero():
		ni.Net, ni.NID = r.NID.Net(), r.NID
		nis = []config.NI{ni}
	case len(r.Interfaces) == 0 && r.Net != 0: // the driver chooses the device
		ni.Net = r.Net
		nis = []config.NI{ni}
	default:
		for _, name := range r.Interfaces {
			device, err := config.ParseDevice(name, ni.CPTs)
			if err != nil {
				return nil, nil, api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "cannot parse interface"}.Because(err)
			}
			one := ni
			one.Net, one.Device, one.CPTs, one.Listed = r.Net, device.Device, device.CPTs, device.Listed
			nis = append(nis, one)
		}
		s, err := b.node.resolvedState(&config.Config{State: config.State{NIs: nis}})
		if err != nil {
			return nil, nil, err
		}
		nis = s.NIs
	}
	if err := b.node.engines.checkCPTs(nis); err != nil {
		return nil, nil, err
	}
	values := b.node.engines.values
	return b.node.engines.resolved(nis, values, values), warnings, nil
}

// template returns an NI that has the tunables and CPTs of the request r, but no net and no name.
func (b *backend) template(r *api.NetAddition) (config.NI, error) {
	ni := config.NI{Tunables: lnd.Tunables{PeerTimeout: -1}, Proxy: r.Proxy}
	for _, n := range []struct {
		from *int
		to   *int
	}{
		{r.PeerCredits, &ni.Tunables.PeerCredits}, {r.PeerBufferCredits, &ni.Tunables.PeerBufferCredits},
		{r.Credits, &ni.Tunables.Credits},
	} {
		if n.from != nil && *n.from > 0 {
			*n.to = *n.from
		}
	}
	if r.PeerTimeout != nil && *r.PeerTimeout >= 0 {
		ni.Tunables.PeerTimeout = duration(*r.PeerTimeout)
	}
	var err error
	if r.CPT != "" {
		if ni.CPTs, err = config.ParseCPTs(r.CPT); err != nil {
			return ni, api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "invalid CPT set"}.Because(err)
		}
	}
	t := r.Net.Type()
	if !r.NID.IsZero() {
		t = r.NID.Net().Type()
	}
	if r.IP2Nets == "" {
		if err := b.node.drivers.checkProxy(r.Proxy, t); err != nil {
			return ni, err
		}
	}
	if len(r.LND) == 0 {
		return ni, nil
	}
	d := b.node.drivers.of(t)
	if err = d.CheckTunables(r.LND, false); err != nil {
		return ni, tunableFault(err)
	}
	for name, v := range r.LND {
		ni.Options = ni.Options.With(name, d.Named(name).Stored(v))
	}
	return ni, nil
}

// DeleteNet implements server.Backend. It deletes NIs and, if a net loses its last NI, the routes and
// peers that depend on the net.
func (b *backend) DeleteNet(ctx context.Context, r api.NetDeletion) error {
	if b.LNetDown() {
		return networkDown()
	}
	have, err := b.node.runningState(ctx)
	if err != nil {
		return err
	}
	var d config.Deletion
	switch {
	case !r.NID.IsZero():
		d.NIs = []config.NI{{Net: r.NID.Net(), NID: r.NID}}
	case len(r.Interfaces) == 0:
		d.Nets = []config.NamedNet{{Net: r.Net}}
	default:
		for _, name := range r.Interfaces {
			ni, err := config.ParseDevice(name, nil)
			if err != nil {
				ni.Device = name // not a valid name, so the deletion reports that no such NI exists
			}
			ni.Net = r.Net
			d.NIs = append(d.NIs, ni)
		}
		here := slices.DeleteFunc(slices.Clone(have.NIs), func(i config.NI) bool { return i.Net != r.Net })
		d.NIs = b.node.engines.byOwnNID(config.ExpandDevices(d.NIs, config.DevicesOf(here)))
	}
	net := r.Net
	if net == 0 {
		net = r.NID.Net()
	}
	if !slices.ContainsFunc(have.NIs, func(i config.NI) bool { return i.Net == net }) {
		return netRefused(syscall.EINVAL, "cannot del network", "no NI exists on "+net.String(), "see the nets with: lnetdctl net show")
	}
	want, absent, err := config.Delete(&have, &d)
	switch {
	case err != nil:
		return err
	case len(absent) > 0:
		return netRefused(syscall.ENODEV, "interface invalid for deleting LNet NI", absent.Error(), "to list the NIs, use: lnetdctl net show")
	}
	return b.node.apply(ctx, config.Diff(&have, &want, b.node.drivers.Options()), false)
}

// SetNITunables implements server.Backend. It changes tunables of NIs, which stay up.
func (b *backend) SetNITunables(ctx context.Context, r api.NITunables) error {
	have, err := b.node.runningState(ctx)
	if err != nil {
		return err
	}
	want := have
	want.NIs = slices.Clone(have.NIs)
	if name := b.node.drivers.unknown(want.NIs, r.LND); r.All && len(want.NIs) > 0 && name != "" {
		return tunableFault(fmt.Errorf("no NI has a tunable named %q", name))
	}
	found := false
	for k := range want.NIs {
		ni := &want.NIs[k]
		if len(r.LND) > 0 && (r.All || !r.NID.IsZero() && ni.Own == r.NID || r.NID.IsZero() && ni.Net == r.Net) {
			changed, err := b.node.drivers.of(ni.Net.Type()).tune(ni, &r)
			if err != nil {
				return err
			}
			found = found || changed
		}
		if r.LNDTimeout != nil && ni.Net == r.Net {
			ni.Options, found = ni.Options.With("timeout", int64(*r.LNDTimeout)), true
		}
	}
	if !found && (!r.All || len(r.LND) == 0) {
		return fmt.Errorf("no NI matches the request: %w", node.ErrNotFound)
	}
	want.NIs = b.node.engines.resolved(want.NIs, have.Drivers, have.Drivers)
	return b.node.apply(ctx, config.Diff(&have, &want, b.node.drivers.Options()), false)
}

// tune sets the tunables of the request r in ni. If r is for all NIs, tune ignores tunables that d does
// not have. It reports whether it has set any tunable.
func (d *Driver) tune(ni *config.NI, r *api.NITunables) (changed bool, _ error) {
	for _, name := range slices.Sorted(maps.Keys(r.LND)) {
		v := r.LND[name]
		if r.All && d.Named(name) == nil {
			continue
		}
		if err := d.CheckTunables(lnd.Values{name: v}, true); err != nil {
			return false, tunableFault(err)
		}
		ni.Options, changed = ni.Options.With(name, d.Named(name).Stored(v)), true
	}
	return changed, nil
}

func tunableFault(err error) error {
	return api.Fault{Code: api.CodeRequestInvalid, Errno: -int(syscall.EINVAL), Text: "failed to parse lnd tunables"}.Because(err)
}
