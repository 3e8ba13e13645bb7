package client

import (
	"context"
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
)

// Version returns the version of the daemon.
func (c *Client) Version(ctx context.Context) (api.Version, error) {
	return call(ctx, c, endpoint.Version, nil)
}

// Nets returns all nets or, if name is not empty, only the net with this name.
func (c *Client) Nets(ctx context.Context, name string) ([]api.Net, error) {
	n, err := c.NetsAndWaiting(ctx, name)
	return n.Nets, err
}

// NetsAndWaiting is like Nets, and also returns the NIs that wait for their interface.
func (c *Client) NetsAndWaiting(ctx context.Context, name string) (api.Nets, error) {
	return call(ctx, c, endpoint.Nets, endpoint.Query{"net": name})
}

// AddNet brings NIs up. It returns warnings for the operator.
func (c *Client) AddNet(ctx context.Context, r api.NetAddition) ([]string, error) {
	done, err := call(ctx, c, endpoint.AddNet, r)
	return done.Warnings, err
}

// DeleteNet deletes a net or NIs.
func (c *Client) DeleteNet(ctx context.Context, r api.NetDeletion) error {
	return change(ctx, c, endpoint.DeleteNet, r)
}

// SetNITunables changes tunables of NIs that are up.
func (c *Client) SetNITunables(ctx context.Context, r api.NITunables) error {
	return change(ctx, c, endpoint.SetNITunables, r)
}

// Configuration returns the node's configuration.
func (c *Client) Configuration(ctx context.Context) (api.Configuration, error) {
	return call(ctx, c, endpoint.Configuration, nil)
}

// ChangeConfiguration changes the configuration according to a document and returns the changes. In a dry run
// it only returns them. With r.Minimal the result has no configurations.
func (c *Client) ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	return call(ctx, c, endpoint.ChangeConfiguration, r)
}

// Errands returns the pings and discoveries that a document requests. It does not run them.
func (c *Client) Errands(ctx context.Context, d api.Document) ([]api.Errand, error) {
	found, err := call(ctx, c, endpoint.Errands, d)
	return found.Errands, err
}

// SetLNet configures or unconfigures LNet.
func (c *Client) SetLNet(ctx context.Context, r api.LNet) error {
	return change(ctx, c, endpoint.SetLNet, r)
}

// SetNIHealth sets the health of a local NI, or of all NIs except 0@lo.
func (c *Client) SetNIHealth(ctx context.Context, r api.HealthChange) error {
	return change(ctx, c, endpoint.SetNIHealth, r)
}

// SetPeerHealth sets the health of a peer NI, or of all peer NIs.
func (c *Client) SetPeerHealth(ctx context.Context, r api.HealthChange) error {
	return change(ctx, c, endpoint.SetPeerHealth, r)
}

// Routes returns the routes that match a filter.
func (c *Client) Routes(ctx context.Context, f api.RouteFilter) ([]api.Route, error) {
	q := endpoint.Query{"net": f.Net, "gateway": f.Gateway}
	if f.Hops >= 0 {
		q["hops"] = strconv.FormatInt(f.Hops, 10)
	}
	if f.Priority >= 0 {
		q["priority"] = strconv.FormatInt(f.Priority, 10)
	}
	r, err := call(ctx, c, endpoint.Routes, q)
	return r.Routes, err
}

// AddRoutes adds routes to a net.
func (c *Client) AddRoutes(ctx context.Context, r api.RouteAddition) error {
	return change(ctx, c, endpoint.AddRoutes, r)
}

// DeleteRoutes deletes routes to a net.
func (c *Client) DeleteRoutes(ctx context.Context, r api.RouteDeletion) error {
	return change(ctx, c, endpoint.DeleteRoutes, r)
}

// Routing returns the state of routing and the router buffers.
func (c *Client) Routing(ctx context.Context) (api.Routing, error) {
	return call(ctx, c, endpoint.Routing, nil)
}

// SetRouting enables or disables routing, or changes the numbers of router buffers.
func (c *Client) SetRouting(ctx context.Context, r api.RoutingChange) error {
	return change(ctx, c, endpoint.SetRouting, r)
}

// Globals returns the node's parameters.
func (c *Client) Globals(ctx context.Context) (api.Globals, error) {
	return call(ctx, c, endpoint.Globals, nil)
}

// SetGlobals changes parameters.
func (c *Client) SetGlobals(ctx context.Context, r api.GlobalsChange) error {
	return change(ctx, c, endpoint.SetGlobals, r)
}

// Log returns the settings of lnetd's log.
func (c *Client) Log(ctx context.Context) (api.Log, error) {
	return call(ctx, c, endpoint.Log, nil)
}

// SetLog changes the log level.
func (c *Client) SetLog(ctx context.Context, r api.LogChange) error {
	return change(ctx, c, endpoint.SetLog, r)
}

// UDSP returns all user-defined selection policies or, if index is not empty, only the one at this index.
func (c *Client) UDSP(ctx context.Context, index string) ([]api.UDSPRule, error) {
	u, err := call(ctx, c, endpoint.UDSP, endpoint.Query{"idx": index})
	return u.Rules, err
}

// AddUDSP adds a user-defined selection policy.
func (c *Client) AddUDSP(ctx context.Context, r api.UDSPRule) error {
	return change(ctx, c, endpoint.AddUDSP, r)
}

// DeleteUDSP deletes one or all user-defined selection policies.
func (c *Client) DeleteUDSP(ctx context.Context, r api.UDSPDeletion) error {
	return change(ctx, c, endpoint.DeleteUDSP, r)
}

// Selection returns the "selection" rules with the given type and ID. An empty kind or id matches all rules.
func (c *Client) Selection(ctx context.Context, kind, id string) ([]api.SelectionRule, error) {
	s, err := call(ctx, c, endpoint.Selection, endpoint.Query{"type": kind, "id": id})
	return s.Rules, err
}

// AddSelection adds a "selection" rule.
func (c *Client) AddSelection(ctx context.Context, r api.SelectionRule) error {
	return change(ctx, c, endpoint.AddSelection, r)
}

// DeleteSelection deletes a "selection" rule.
func (c *Client) DeleteSelection(ctx context.Context, r api.SelectionRule) error {
	return change(ctx, c, endpoint.DeleteSelection, r)
}

// Explain returns the path that a message to a NID would take, and why. If source is empty, lnetd chooses the
// local NID. If portal is empty, the answer is for any portal except 0.
func (c *Client) Explain(ctx context.Context, nid, source, portal string) (api.Explanation, error) {
	return call(ctx, c, endpoint.Explain, endpoint.Query{"nid": nid, "source": source, "portal": portal})
}

// Faults returns the fault rules of a kind.
func (c *Client) Faults(ctx context.Context, kind string) ([]api.FaultRule, error) {
	f, err := call(ctx, c, endpoint.Faults, endpoint.Query{"kind": kind})
	return f.Rules, err
}

// AddFault adds a fault rule.
func (c *Client) AddFault(ctx context.Context, r api.FaultRule) error {
	return change(ctx, c, endpoint.AddFault, r)
}

// DeleteFaults deletes fault rules.
func (c *Client) DeleteFaults(ctx context.Context, r api.FaultDeletion) error {
	return change(ctx, c, endpoint.DeleteFaults, r)
}

// ResetFaults resets the counters of all fault rules.
func (c *Client) ResetFaults(ctx context.Context) error {
	return change(ctx, c, endpoint.ResetFaults, api.Done{})
}

// Clients returns the clients for which lnetd hosts transfer machines.
func (c *Client) Clients(ctx context.Context) (api.Clients, error) {
	return call(ctx, c, endpoint.Clients, nil)
}

// DropClient disconnects a client. It does not wait until the client's operations have ended.
func (c *Client) DropClient(ctx context.Context, id uint64) error {
	return change(ctx, c, endpoint.DropClient, api.ClientDrop{ID: id})
}

// Stats returns the node's counters.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	return call(ctx, c, endpoint.Stats, nil)
}

// ResetStats resets the counters of the node, its NIs and its peer NIs.
func (c *Client) ResetStats(ctx context.Context) error {
	return change(ctx, c, endpoint.ResetStats, api.Done{})
}

// NUMA returns the NUMA layout of the host.
func (c *Client) NUMA(ctx context.Context) (api.NUMA, error) {
	return call(ctx, c, endpoint.NUMA, nil)
}
