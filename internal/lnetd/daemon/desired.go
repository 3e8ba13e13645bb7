package daemon

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// desiredState returns the state that the loaded configuration describes. If keep is not nil, drivers
// with NIs in keep are not replaced, and desiredState returns the changes of drivers that it left out.
func (t *nodeTask) desiredState(ctx context.Context, keep *config.State) (config.State, []config.Step, error) {
	want := t.config.State
	want.LeaveUndiscovered()
	if len(want.NIs) == 0 && !t.unsettled.Load() {
		found, err := t.find(ctx)
		if err != nil {
			return want, nil, err
		}
		want.NIs = found
	}
	t.engines.logCPTs(want.NIs)
	kept := t.completeState(&want, &t.config, keep)
	want.Peers = t.withoutOwn(want.Peers, want.NIs)
	want.LeaveRoutes(func(r *config.Route, why string) { t.leaveOut(r, errors.New(why)) })
	return want, kept, nil
}

// replacement returns the state that a settled document describes if it replaces the state have.
// It is what wanted would return if lnetd had been started with the document, on this host and
// with this command line. A node without NIs stays without if the document names no net, because
// LNet was configured like that.
func (t *nodeTask) replacement(ctx context.Context, c *config.Config, have *config.State) (config.State, error) {
	want := c.State
	switch {
	case len(want.NIs) > 0 || len(have.NIs) == 0 || !c.Site.Empty(): // rules may wait for an interface
	case t.config.Given.Networks:
		want.NIs = t.config.NIs
	default:
		var err error
		if want.NIs, err = t.find(ctx); err != nil {
			return want, err
		}
	}
	t.completeState(&want, c, nil)
	want.Peers = t.withoutOwn(want.Peers, want.NIs)
	return want, nil
}

// find returns the NI that is used if a configuration names none.
func (t *nodeTask) find(ctx context.Context) ([]config.NI, error) {
	if t.found != nil {
		return []config.NI{*t.found}, nil
	}
	for k := range t.drivers {
		if find := t.drivers[k].Find; find != nil {
			ni, err := find(ctx, t.log)
			if err == nil {
				t.found = &ni
			}
			return []config.NI{ni}, err
		}
	}
	return nil, nil
}

// completeState adds to want, which was made from c, what c does not contain: ports and similar
// settings that lnetd was started with, and the defaults of NIs and buffers. It returns the
// driver changes that it left out because drivers with NIs in keep are not replaced.
func (t *nodeTask) completeState(want *config.State, c *config.Config, keep *config.State) (kept []config.Step) {
	want.Drivers = config.WithOwn(want.Drivers, t.config.Drivers, t.drivers.Options())
	want.SetLNDTimeouts(c.LNDTimeouts)
	said := want.Drivers
	if keep != nil {
		kept = config.KeepDrivers(keep, want)
	}
	want.NIs = t.engines.resolved(want.NIs, said, want.Drivers)
	want.Buffers = want.Buffers.Resolved()
	return kept
}

// addition completes a settled document that is added to the state have. It returns the driver
// changes that it left out because drivers with NIs are not replaced.
func (t *nodeTask) addition(c *config.Config, have *config.State) (kept []config.Step) {
	c.AddDrivers(have)
	said := c.Drivers
	kept = config.KeepDrivers(have, &c.State)
	c.NIs = t.engines.resolvedOver(c.NIs, said, c.Drivers)
	c.Buffers = c.Buffers.Resolved()
	return kept
}
