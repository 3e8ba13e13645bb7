package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selection"
)

// undoTimeout bounds each step that reverts a part of a failed change.
const undoTimeout = 10 * time.Second

// apply applies the steps to the node in order. If a step fails, apply reverts the earlier steps, so
// that the node is as before. The error can be shown to an operator unchanged. If wait is set, an NI
// whose interface is not usable yet is added as a waiting NI (see waitingNI); otherwise such an NI is
// an error. apply must run under changes.inTurn.
func (t *nodeTask) apply(ctx context.Context, steps []config.Step, wait bool) error {
	before, nids := t.engines.configured(), t.nids()
	for k := 0; k < len(steps); {
		batch := batchOf(steps[k:])
		done, err := t.applyBatch(ctx, batch, wait)
		for _, s := range batch[:done] {
			t.log.Debug("configuration step applied", "step", s.String())
		}
		k += done
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		t.undo(ctx, steps[:k])
		t.engines.order(before)
		if wrong := t.arrange(context.WithoutCancel(ctx), nids); wrong != nil {
			t.log.Error("the order of NIs could not be restored after a failed change; peers may see another primary NID", "err", wrong)
		}
		return err
	}
	return nil
}

// nids returns the NIDs of the NIs that are up, including 0@lo, in the node's order.
func (t *nodeTask) nids() (nids []lnet.NID) {
	for _, i := range t.NIs() {
		nids = append(nids, i.NID)
	}
	return nids
}

// arrange puts the node's NIs in the given order.
func (t *nodeTask) arrange(ctx context.Context, nids []lnet.NID) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	return t.ArrangeNIs(ctx, nids)
}

// setOrder puts the NIs of the configuration and those of the node into the order o. It logs a change
// of the order, because the node's primary NID may change with it.
func (t *nodeTask) setOrder(ctx context.Context, o config.Order) error {
	t.engines.order(o)
	var nids []lnet.NID
	for _, i := range t.engines.configured() {
		nids = append(nids, i.Own)
	}
	before := t.nids()
	if err := t.arrange(ctx, nids); err != nil {
		return err
	}
	if now := t.nids(); !slices.Equal(now, before) && len(now) > 1 {
		t.log.Info("the order of NIs has changed", "primary", now[1].String())
	}
	return nil
}

// undo reverts the given steps, which have been applied, last step first. It also does so if ctx has
// ended. A step that cannot be reverted is logged.
func (t *nodeTask) undo(ctx context.Context, steps []config.Step) {
	ctx = context.WithoutCancel(ctx)
	var back []config.Step
	for _, s := range slices.Backward(steps) {
		back = append(back, s.Inverse())
	}
	take := func(batch []config.Step) error {
		ctx, cancel := context.WithTimeout(ctx, undoTimeout)
		defer cancel()
		_, err := t.applyBatch(ctx, batch, true)
		return err
	}
	for len(back) > 0 {
		batch := batchOf(back)
		back = back[len(batch):]
		if len(batch) > 1 && take(batch) == nil {
			continue
		}
		for k, s := range batch {
			if err := take(batch[k : k+1]); err != nil {
				t.log.Error("a step of a failed change could not be undone; the configuration is partly changed", "step", s.Inverse().String(), "err", err)
			}
		}
	}
}

// applyStep applies one step of the kind single to the node. The argument wait is that of apply.
func (t *nodeTask) applyStep(ctx context.Context, s config.Step, wait bool) error {
	switch s := s.(type) {
	case config.Change[config.NI]:
		switch {
		case s.To == nil:
			return t.engines.removeNI(ctx, t.Node, s.From)
		case s.From != nil:
			return t.engines.changeNI(ctx, t.Node, s.From, s.To)
		}
		return t.engines.addNI(ctx, t.Node, s.To, wait)
	case config.Change[config.Order]:
		return t.setOrder(ctx, *s.To)
	case config.Change[config.Peer]:
		return t.changePeer(ctx, s)
	case config.Change[config.Policies]:
		return t.setPolicies(ctx, s.To)
	case config.Change[config.Parameters]:
		if err := t.SetParameters(s.To.Parameters); err != nil {
			return refused(err, api.Fault{Text: "the parameters cannot be set", Remedy: "check the section \"global\""})
		}
		t.routerSensitivity.Store(int64(s.To.RouterSensitivity))
		return nil
	case config.Change[node.Buffers]:
		t.SetBuffers(*s.To)
		return nil
	case config.Change[config.Routing]:
		return t.setRouting(*s.To)
	case config.DriverChange:
		return t.engines.set(s.Type, s.To)
	}
	panic(fmt.Sprintf("daemon: no such step: %T", s))
}

// setPolicies replaces all policies of the node by those of want.
func (t *nodeTask) setPolicies(ctx context.Context, want *config.Policies) error {
	err := t.ChangePolicies(ctx, func(p *selection.Policies) error {
		*p = selection.Policies{}
		for _, r := range want.Rules {
			if err := p.Add(r, selection.Append); err != nil {
				return err
			}
		}
		for _, r := range want.TypedRules {
			if _, err := p.AddTyped(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return refused(err, api.Fault{
			Text:   "the policies cannot be set",
			Remedy: "check the sections \"udsp\" and \"selection\" of the configuration",
		})
	}
	t.log.Info("selection policies replaced", "udsp_rules", len(want.Rules), "selection_rules", len(want.TypedRules))
	return nil
}

// setRouting makes the node a router, or an end node if r is RoutingOff. A router that is about to
// stop becomes a router again, although the command "set routing 1" would not do this (lnetctl 4.9).
func (t *nodeTask) setRouting(r config.Routing) error {
	if r == config.RoutingOff {
		t.DisableRouting()
		return nil
	}
	if err := t.ResumeRouting(); err != nil {
		return refused(err, api.Fault{
			Text: "routing cannot be enabled on this node", Remedy: "see the sections \"routing\" and \"buffers\" of the configuration",
		})
	}
	p := t.Parameters()
	t.log.Info("this node is now a router; peers learn this from their next ping", "after", (p.RouterCheckInterval + p.RouterPingTimeout).String())
	return nil
}

// refused completes f, the fault for an entry of the configuration that the node rejected, with the
// node's error err as the cause.
func refused(err error, f api.Fault) error {
	f.Code, f.Errno = api.CodeConfigInvalid, -int(server.Errno(err))
	return f.Because(err)
}
