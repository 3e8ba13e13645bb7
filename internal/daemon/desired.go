package daemon

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/internal/config"
)

// wanted returns what the node is to be by the configuration that lnetd has loaded. Drivers with
// NIs in keep are not replaced: what would change of them is returned; nil replaces all.
func (t *nodeTask) wanted(ctx context.Context, keep *config.State) (config.State, []config.Step, error) {
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
	kept := t.complete(&want, &t.config, keep)
	want.Peers = t.withoutOwn(want.Peers, want.NIs)
	want.LeaveRoutes(func(r *config.Route, why string) { t.leaveOut(r, errors.New(why)) })
	return want, kept, nil
}

// replacement returns what a settled document that is to replace what the node is makes of it. It is the
// same as wanted would return if lnetd had been started with the document, on this host and with
// this command line. A node without any NI stays so if the document names no net: LNet was
// configured like that.
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
	t.complete(&want, c, nil)
	want.Peers = t.withoutOwn(want.Peers, want.NIs)
	return want, nil
}

// find returns the NI that is taken if a configuration names none.
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

// complete puts into want, which c has made, what does not stand in c: the ports and the like that
// lnetd was started with, and the defaults of NIs and buffers. It returns what it takes out because
// drivers with NIs in keep are not replaced.
func (t *nodeTask) complete(want *config.State, c *config.Config, keep *config.State) (kept []config.Step) {
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

// addition completes a settled document that is to be added to what the node is, and returns what it
// takes out because drivers with NIs are not replaced.
func (t *nodeTask) addition(c *config.Config, have *config.State) (kept []config.Step) {
	c.AddDrivers(have)
	said := c.Drivers
	kept = config.KeepDrivers(have, &c.State)
	c.NIs = t.engines.resolved(c.NIs, said, c.Drivers)
	c.Buffers = c.Buffers.Resolved()
	return kept
}
