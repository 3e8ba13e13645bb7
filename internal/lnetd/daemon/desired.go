package daemon

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// desiredState returns the state that the loaded configuration describes on this host. If keep is not
// nil, drivers with NIs in keep retain their options, because a change would replace the driver. The
// steps are the driver changes that were left out for this reason; they need a restart.
func (t *nodeTask) desiredState(ctx context.Context, keep *config.State) (config.State, []config.Step, error) {
	c := t.loaded.Load()
	want := c.State
	want.LeaveUndiscovered()
	if len(want.NIs) == 0 && !t.unsettled.Load() {
		found, err := t.find(ctx)
		if err != nil {
			return want, nil, err
		}
		want.NIs = found
	}
	t.engines.logCPTs(want.NIs)
	kept := t.completeState(&want, c, keep)
	want.Peers = t.withoutOwn(want.Peers, want.NIs)
	want.LeaveRoutes(func(r *config.Route, why string) { t.leaveOut(r, errors.New(why)) })
	return want, kept, nil
}

// replacement returns the state that a node in state have must reach if the document c replaces its
// configuration. The rules of c must have been resolved for this host. The result is the state that
// lnetd would have if it had been started with the document and the present command line. There is
// one exception: if the document names no net and the node has no NIs, lnetd chooses no NI.
func (t *nodeTask) replacement(ctx context.Context, c *config.Config, have *config.State) (config.State, error) {
	want := c.State
	switch {
	case len(want.NIs) > 0 || len(have.NIs) == 0 || !c.Site.Empty(): // rules may match an interface that appears later
	case t.loaded.Load().Given.Networks:
		want.NIs = t.loaded.Load().NIs
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

// find returns the NI that lnetd chooses if the configuration names no net. The list is empty if no
// driver can choose one. The choice is stored, so that a reload does not change it.
func (t *nodeTask) find(ctx context.Context) ([]config.NI, error) {
	if ni := t.found.Load(); ni != nil {
		return []config.NI{*ni}, nil
	}
	for k := range t.drivers {
		if find := t.drivers[k].Find; find != nil {
			ni, err := find(ctx, t.log)
			if err == nil {
				t.found.Store(&ni)
			}
			return []config.NI{ni}, err
		}
	}
	return nil, nil
}

// completeState adds to want, a state made from c, the settings that c does not contain: the ports
// and other driver options of the loaded configuration, and the defaults of NIs and router buffers.
// If keep is not nil, drivers with NIs in keep retain their options, and completeState returns the
// driver changes that it left out for this reason.
func (t *nodeTask) completeState(want *config.State, c *config.Config, keep *config.State) (kept []config.Step) {
	want.Drivers = config.WithOwn(want.Drivers, t.loaded.Load().Drivers, t.drivers.Options())
	want.SetLNDTimeouts(c.LNDTimeouts)
	said := want.Drivers
	if keep != nil {
		kept = config.KeepDrivers(keep, want)
	}
	want.NIs = t.engines.resolved(want.NIs, said, want.Drivers)
	want.Buffers = want.Buffers.Resolved()
	return kept
}

// addition completes the document c, which is to be added to the state have: it adds the options of
// the running drivers and the defaults of NIs and router buffers. The rules of c must have been
// resolved for this host. Drivers with NIs retain their options, and addition returns the driver
// changes that it left out for this reason.
func (t *nodeTask) addition(c *config.Config, have *config.State) (kept []config.Step) {
	c.AddDrivers(have)
	said := c.Drivers
	kept = config.KeepDrivers(have, &c.State)
	c.NIs = t.engines.resolvedOver(c.NIs, said, c.Drivers)
	c.Buffers = c.Buffers.Resolved()
	return kept
}
