package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
)

// SetLevel sets the variable that holds the level of the daemon's logger. Reload and "log set" change
// the level through it. Without SetLevel, the level cannot be changed. It must be called before Run.
func (d *Daemon) SetLevel(l *slog.LevelVar) { d.level = l }

// Reload replaces the configuration by the one that load returns, and changes only what differs. It
// waits until the node is up. If the new configuration has errors or a change fails, the node keeps its
// configuration. Reload logs errors, warnings and the settings that need a restart.
func (d *Daemon) Reload(ctx context.Context, load func() (config.Config, error)) {
	d.systemd.Reloading("reloading the configuration; " + d.status())
	d.record.note(d.reload(ctx, load), time.Now())
	d.systemd.Reloaded(d.status())
}

// reload does what Reload does, and returns the outcome for the record.
func (d *Daemon) reload(ctx context.Context, load func() (config.Config, error)) reloadOutcome {
	c, err := load()
	if err != nil {
		d.log.Error("the configuration file is not readable or has errors; it was not reloaded", "err", err)
		return reloadOutcome{err: err}
	}
	for _, w := range c.Warnings {
		d.log.Warn("configuration warning", "warning", w.Error())
	}
	d.reloads.Lock()
	defer d.reloads.Unlock()
	left, err := d.reloadNode(ctx, &c)
	if err != nil {
		d.log.Error("reload failed; the configuration is unchanged", "err", err)
		return reloadOutcome{err: err}
	}
	left = append(left, d.putParts(&c, nil)...)
	out := reloadOutcome{holds: &c, partly: len(left) > 0}
	if out.err = d.checkWebConfig(&d.config); out.err != nil {
		d.log.Error("metrics requests are refused until the web_config file is corrected", "err", out.err)
	}
	switch {
	case out.partly:
		d.log.Warn("some changes of the configuration take effect only when lnetd is restarted", "changes", left)
	case out.err == nil:
		d.log.Info("configuration reloaded")
	}
	return out
}

// reloadNode waits until the node is up and applies c to it. It returns texts that describe the changes
// that need a restart.
func (d *Daemon) reloadNode(ctx context.Context, c *config.Config) (left []string, err error) {
	d.mu.Lock()
	t := d.node
	d.mu.Unlock()
	if t == nil {
		return nil, errors.New("lnetd is still starting")
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	busy := t.changes.inTurn(ctx, func() { left, err = t.reload(ctx, c) })
	return left, errors.Join(busy, err)
}

// reload makes c the loaded configuration and applies its differences from the node's state. If LNet is
// not configured, c is only stored, for the time when LNet is configured. reload returns texts that
// describe the changes that need a restart. It must run under changes.inTurn.
func (t *nodeTask) reload(ctx context.Context, c *config.Config) (left []string, err error) {
	before, wasUnsettled := t.loaded.Load(), t.unsettled.Load()
	if before.Given.Any && !c.Given.Any {
		return nil, emptyFault("that lnetd reads")
	}
	next := *c
	var unsettled bool
	if next.State, unsettled, err = t.settledOrWaiting(&next); err != nil {
		return nil, err
	}
	t.loaded.Store(&next)
	t.unsettled.Store(unsettled)
	if t.unconfigured.Load() {
		return nil, nil
	}
	later, err := t.replace(ctx)
	if err != nil {
		t.loaded.Store(before)
		t.unsettled.Store(wasUnsettled)
		return nil, err
	}
	t.pending = nil
	for _, s := range later {
		left = append(left, s.String())
	}
	return left, nil
}

// replace changes the node, which must be up, to the state that the loaded configuration describes. It
// returns the driver changes that were not applied because they need a restart. It must run under
// changes.inTurn.
func (t *nodeTask) replace(ctx context.Context) (later []config.Step, _ error) {
	have, err := t.runningState(ctx)
	if err != nil {
		return nil, err
	}
	want, later, err := t.desiredState(ctx, &have)
	if err != nil {
		return nil, err
	}
	want.TypedRules = t.loaded.Load().KeepRuleIDs(&have)
	if refused := t.drivers.twice("", want.NIs); len(refused) > 0 {
		return nil, refused
	}
	return later, t.apply(ctx, config.Diff(&have, &want, t.drivers.Options()), true)
}
