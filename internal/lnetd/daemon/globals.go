package daemon

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

func (b *backend) Globals() api.Globals {
	p := b.node.allParameters()
	return globalsOf(&p)
}

// allParameters returns the parameters of the running node, including router_sensitivity, which is
// only stored to be shown.
func (t *nodeTask) allParameters() config.Parameters {
	return config.Parameters{Parameters: t.Parameters(), RouterSensitivity: int(t.routerSensitivity.Load())}
}

// globalsOf converts parameters to the form of the control interface.
func globalsOf(p *config.Parameters) api.Globals {
	return api.Globals{Values: p.Shown(), Verify: p.Discovery == discovery.Verify}
}

func (b *backend) SetGlobals(_ context.Context, c api.GlobalsChange) error {
	p := b.node.allParameters()
	p.Set(c.Values)
	switch {
	case c.Verify == nil:
	case *c.Verify:
		p.Discovery = discovery.Verify
	case p.Discovery == discovery.Verify:
		p.Discovery = discovery.On
	}
	if err := b.node.SetParameters(p.Parameters); err != nil {
		return err
	}
	b.node.routerSensitivity.Store(int64(p.RouterSensitivity))
	return nil
}

func inSeconds(d time.Duration) int64 { return int64(d / time.Second) }
