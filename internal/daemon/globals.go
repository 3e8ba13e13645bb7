package daemon

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/config"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/node"
)

func (b *backend) Globals() api.Globals {
	return globalsOf(&config.Parameters{
		Parameters: b.node.Parameters(), RouterSensitivity: int(b.node.routerSensitivity.Load()),
	})
}

// globalsOf converts parameters for the control interface.
func globalsOf(p *config.Parameters) api.Globals {
	return api.Globals{
		NUMARange:               int64(p.NUMARange),
		MaxInterfaces:           int64(p.InterfacesMax),
		Discovery:               number(p.Discovery != discovery.Off),
		Verify:                  p.Discovery == discovery.Verify,
		DropAsymRoute:           number(p.DropAsymRoute),
		RetryCount:              int64(p.RetryCount),
		TransactionTimeout:      inSeconds(p.TransactionTimeout),
		HealthSensitivity:       int64(p.HealthSensitivity),
		RouterSensitivity:       int64(p.RouterSensitivity),
		LNDTimeout:              inSeconds(p.LNDTimeout()),
		ResponseTracking:        int64(p.ResponseTracking),
		RecoveryLimit:           inSeconds(p.RecoveryLimit),
		MaxRecoveryPingInterval: inSeconds(p.MaxRecoveryPingInterval),
	}
}

func (b *backend) SetGlobals(_ context.Context, c api.GlobalsChange) error {
	p := b.node.Parameters()
	change(&p, &c)
	if err := b.node.SetParameters(p); err != nil {
		return err
	}
	if c.RouterSensitivity != nil {
		b.node.routerSensitivity.Store(*c.RouterSensitivity)
	}
	return nil
}

// change sets the parameters that are present in c.
func change(p *node.Parameters, c *api.GlobalsChange) {
	set := func(v *int64, into func(int64)) {
		if v != nil {
			into(*v)
		}
	}
	set(c.NUMARange, func(v int64) { p.NUMARange = uint32(v) })
	set(c.MaxInterfaces, func(v int64) { p.InterfacesMax = int(v) })
	set(c.Discovery, func(v int64) { p.Discovery = discoveryMode(p.Discovery, v != 0) })
	switch {
	case c.Verify == nil:
	case *c.Verify:
		p.Discovery = discovery.Verify
	case p.Discovery == discovery.Verify:
		p.Discovery = discovery.On
	}
	set(c.DropAsymRoute, func(v int64) { p.DropAsymRoute = v != 0 })
	set(c.RetryCount, func(v int64) { p.RetryCount = int(v) })
	set(c.TransactionTimeout, func(v int64) { p.TransactionTimeout = time.Duration(v) * time.Second })
	set(c.HealthSensitivity, func(v int64) { p.HealthSensitivity = int(v) })
	set(c.ResponseTracking, func(v int64) { p.ResponseTracking = node.ResponseTracking(v) })
	set(c.RecoveryLimit, func(v int64) { p.RecoveryLimit = time.Duration(v) * time.Second })
	set(c.MaxRecoveryPingInterval, func(v int64) { p.MaxRecoveryPingInterval = time.Duration(v) * time.Second })
}

// discoveryMode returns the mode after "discovery" was set to 0 or 1. Verify is shown as 1.
// Therefore 1, for example from a restored backup, does not change it.
func discoveryMode(now discovery.Mode, on bool) discovery.Mode {
	switch {
	case !on:
		return discovery.Off
	case now == discovery.Off:
		return discovery.On
	}
	return now
}

func inSeconds(d time.Duration) int64 { return int64(d / time.Second) }

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
