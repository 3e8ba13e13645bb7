package perf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// nodeGroup is a group of nodes in this process, each with one NI on the same net, with routes to another net through
// the router.
type nodeGroup struct {
	driver *socklnd.Driver
	nodes  []*node.Node
	ifaces []lnd.Interface
}

// groupDriver is a driver that remembers the interfaces that it has opened.
type groupDriver struct {
	*socklnd.Driver
	group *nodeGroup
}

// Open implements lnd.Driver.
func (d groupDriver) Open(ctx context.Context, c lnd.Config) (lnd.Interface, error) {
	i, err := d.Driver.Open(ctx, c)
	if err == nil {
		d.group.ifaces = append(d.group.ifaces, i)
	}
	return i, err
}

// startGroup starts n nodes on the net local. The gateway is the router's address there. accept reports whether they
// accept connections. The caller must close the group.
func startGroup(ctx context.Context, c *Config, n int, accept bool, local, remote lnet.Net, gateway netip.Addr, address func(int) netip.Addr) (_ *nodeGroup, err error) {
	driver := socklnd.UnprivilegedConfig(c.Port)
	driver.Network, driver.Logger = staticNetwork{socklnd.HostNetwork()}, c.Logger
	if !accept {
		driver.Accept = socklnd.AcceptNone
	}
	// The router connects to all nodes of this process at the same time, from one address.
	driver.MaxHalfOpenPerSource = driver.MaxHalfOpen
	g := &nodeGroup{}
	if g.driver, err = socklnd.New(driver); err != nil {
		return nil, err
	}
	routes := []node.NewRoute{{Net: remote, Gateway: lnet.NIDFromIP(local, gateway)}}
	for k := range n {
		if err := g.add(ctx, c, lnet.NIDFromIP(local, address(k)), routes); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	return g, nil
}

// add starts a node with one NI and the given routes.
func (g *nodeGroup) add(ctx context.Context, c *Config, nid lnet.NID, routes []node.NewRoute) error {
	one, err := node.New(node.Config{Logger: c.Logger})
	if err != nil {
		return err
	}
	g.nodes = append(g.nodes, one)
	if _, err := one.AddNI(ctx, groupDriver{g.driver, g}, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
		return err
	}
	errs, err := one.Admin().AddRoutes(ctx, routes)
	return errors.Join(append(errs, err)...)
}

// close closes the nodes, several at the same time. If some cannot be closed, it returns the error of one of them.
func (g *nodeGroup) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTime)
	defer cancel()
	const atOnce = 16
	var all sync.WaitGroup
	var failed atomic.Int64
	var first error
	for k := range atOnce {
		all.Go(func() {
			for j := k; j < len(g.nodes); j += atOnce {
				if err := g.nodes[j].Close(ctx); err != nil && failed.Add(1) == 1 {
					first = err
				}
			}
		})
	}
	all.Wait()
	if first != nil {
		return fmt.Errorf("%d of %d nodes are not closed; one of them: %w", failed.Load(), len(g.nodes), first)
	}
	return g.driver.Close()
}

// ServeRouter runs the router of a measurement. It calls ready when it forwards messages, and returns when ctx is
// done.
func ServeRouter(ctx context.Context, c Config, ready func()) (err error) {
	d, closer, err := c.openDriver(socklnd.DefaultConfig().Tunables.PeerCredits)
	if err != nil {
		return err
	}
	n, err := node.New(node.Config{Logger: c.Logger, Routing: true})
	if err != nil {
		return errors.Join(err, closer())
	}
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), setupTime)
		defer cancel()
		err = errors.Join(err, n.Close(last), closer())
	}()
	for _, nid := range []lnet.NID{lnet.NIDFromIP(tcp, c.Server), lnet.NIDFromIP(serverNet, RouterFar)} {
		if _, err := n.AddNI(ctx, d, lnd.Config{Net: nid.Net(), NID: nid}); err != nil {
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}

// ServeServers runs n servers behind the router. It calls ready when they accept messages, and returns when ctx is
// done.
func ServeServers(ctx context.Context, c Config, n int, ready func()) (err error) {
	g, err := startGroup(ctx, &c, n, true, serverNet, tcp, RouterFar, serverAddress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, one := range g.nodes {
		_, err := one.Attach(portals.Entry{Portal: portal, MatchBits: putBits}, portals.MD{
			Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote | portals.Truncate,
		})
		if err != nil {
			return err
		}
	}
	ready()
	<-ctx.Done()
	return nil
}
