package doctor

import (
	"context"
	"path/filepath"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/lnet"
)

// Doctor examines one lnetd.
type Doctor struct {
	// Client is connected with lnetd.
	Client *client.Client
	// Program is the path of the program lnetd, which is run if no lnetd answers. If it is empty, the program is
	// searched beside the running one and in PATH.
	Program string
	// Config is the configuration file with which lnetd would be started. If it is empty, it is DefaultConfig if
	// that exists, and otherwise none.
	Config string
	// Timeout is the timeout of each ping and of each probe.
	Timeout time.Duration
	// AskHosts makes Collect ask the networks of the NIs which hosts have their addresses, which takes at least
	// 0.6 s.
	AskHosts bool
}

// DefaultConfig is the configuration file of the service lnetd.
const DefaultConfig = "/etc/lnetd/lnetd.yaml"

// Collect returns the facts about the node, its host and, if nid is not zero, the peer with that NID.
func (d *Doctor) Collect(ctx context.Context, nid lnet.NID) (*diagnosis.Facts, error) {
	f := &diagnosis.Facts{}
	node, err := d.node(ctx)
	f.Stuck = node.Version.Stuck
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.Unreachable = api.FaultOf(err)
		f.Host = host(0, d.directories())
		if f.NotRunning() {
			f.Start = d.start(ctx)
		}
		return f, nil
	}
	f.Node = node
	pid := d.Client.PID(ctx, node.Version.PID)
	if f.HostUnknown = sameNetwork(pid); f.HostUnknown == "" {
		if f.Host = host(pid, d.directories()); f.Host != nil && d.AskHosts {
			d.claims(node, f.Host)
		}
	}
	if !nid.IsZero() && !node.Down {
		f.Peer, err = d.peer(ctx, node, nid)
	}
	return f, err
}

// directories returns the directories in which lnetd needs space.
func (d *Doctor) directories() []string { return []string{filepath.Dir(d.Client.Path())} }

// node asks lnetd about itself.
func (d *Doctor) node(ctx context.Context) (*diagnosis.Node, error) {
	var n diagnosis.Node
	c := d.Client
	var err error
	ask := func(get func() error) {
		if err == nil {
			err = get()
		}
	}
	ask(func() (err error) { n.Version, err = c.Version(ctx); return err })
	if n.Version.Stuck != "" { // it may not answer the rest
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	ask(func() (err error) { n.Clients, err = c.Clients(ctx); return err })
	ask(func() (err error) { n.Nets, err = c.NetsAndWaiting(ctx, ""); return err })
	ask(func() (err error) { n.Peers, err = c.Peers(ctx, ""); return err })
	ask(func() (err error) { n.Routes, err = c.Routes(ctx, api.AllRoutes); return err })
	ask(func() (err error) { n.Routing, err = c.Routing(ctx); return err })
	ask(func() (err error) { n.Globals, err = c.Globals(ctx); return err })
	if err != nil && api.FaultOf(err).Code == api.CodeNetworkDown {
		n.Down, err = true, nil
	}
	return &n, err
}
