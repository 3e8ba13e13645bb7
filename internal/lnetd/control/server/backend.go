package server

import (
	"context"
	"iter"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// Backend is the part of the daemon that the control interface uses. Its methods are called from
// many goroutines at once. Methods that change the node are called one at a time, within InTurn.
// Their errors may be Faults; other errors are classified by Errno.
type Backend interface {
	// InTurn calls do while no other change of the node's configuration runs, so that checks in do
	// stay valid until it acts. If ctx ends first, InTurn returns its cause and does not call do.
	InTurn(ctx context.Context, do func()) error

	// Version returns the version of the daemon.
	Version() api.Version

	// Log returns the settings of the log.
	Log() api.Log
	// SetLog changes the level, which is one of api.LogLevels. It does not wait for changes under
	// way.
	SetLog(level string) error

	// Nets returns all nets: lo first, then the others in the order of creation.
	Nets() []api.Net
	// SetNIHealth sets the health of an NI, 0 to 1000. The zero NID stands for all NIs except 0@lo.
	// It returns node.ErrNotFound if no NI has the NID.
	SetNIHealth(nid lnet.NID, value int) error

	// Waiting returns the NIs whose interface is not usable yet. The caller owns the slice.
	Waiting() []api.WaitingNI
	// AddNet brings up NIs, all or none. Exactly one of the three ways to name them is used. The
	// warnings are for the operator.
	AddNet(ctx context.Context, r api.NetAddition) (warnings []string, err error)
	// DeleteNet deletes NIs. It returns node.ErrNotFound if none match.
	DeleteNet(ctx context.Context, r api.NetDeletion) error
	// SetNITunables changes NIs that are up. It returns node.ErrNotFound if none match.
	SetNITunables(ctx context.Context, r api.NITunables) error

	// LNetDown reports whether LNet is not configured. Methods that need LNet are then not called.
	LNetDown() bool
	// SetLNet configures or unconfigures LNet. It returns EBUSY if LNet is in use.
	SetLNet(ctx context.Context, r api.LNet) error
	// Configuration returns the node's configuration.
	Configuration(ctx context.Context) (api.Configuration, error)
	// ChangeConfiguration changes the configuration according to a document, as a whole or not at
	// all. A dry run returns the changes without making them. It is called outside InTurn, and
	// calls InTurn itself only to read the node's state.
	ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error)
	// Described returns the current state of the entries in a document. Described and Errands
	// change nothing.
	Described(ctx context.Context, d api.Document) (api.Described, error)
	// Errands returns the pings and discoveries that a document requests.
	Errands(ctx context.Context, d api.Document) ([]api.Errand, error)

	// Recovery returns the NIDs that are pinged until they recover.
	Recovery() api.Recovery
	// CPTs returns the CPU partitions of the host.
	CPTs() []api.CPT
	// CPT returns the CPU partition that handles messages with a NID.
	CPT(nid lnet.NID) int

	// Ping pings one process. It blocks until the process answers, the ping fails, or ctx is done.
	// If source is zero, the node chooses it.
	Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error)
	// Discover discovers the peer that has the NID, and blocks like Ping. 0@lo is the local node.
	// With force, a peer that is up to date is discovered again.
	Discover(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error)

	// Peers yields the peers with IDs greater than after, the oldest first; 0 yields all. It omits
	// a peer that has only 0@lo. An error ends the sequence (node.Admin.PeersAfter). The NIs of a
	// peer are valid until the next iteration.
	Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error]
	// Peer returns the peer that has the NID, if any.
	Peer(nid lnet.NID) (api.Peer, bool)
	// AddPeer creates a configured peer, or adds NIDs to it, all or none
	// (discovery.Machine.Configure).
	AddPeer(ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions) error
	// DeletePeer deletes a peer. force is required if its primary NID is locked.
	DeletePeer(ctx context.Context, primary lnet.NID, force bool) error
	// DeletePeerNIDs deletes NIDs of a peer. The peer must have them, and none may be the primary
	// NID.
	DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error
	// SetPeerHealth sets the health of a peer NI like SetNIHealth. The zero NID stands for all.
	SetPeerHealth(nid lnet.NID, value int) error

	// SetPeerState sets the state word of a peer, for tests. The zero NID stands for all peers. It
	// returns discovery.ErrNotFound if no peer has the NID.
	SetPeerState(ctx context.Context, nid lnet.NID, state uint32) error

	// Routes returns all routes in the order of creation.
	Routes() []api.Route
	// AddRoute adds a route. It uses only Net, Gateway, Hops and Priority.
	AddRoute(ctx context.Context, r api.Route) error
	// DeleteRoute deletes the route to a net through a gateway. It returns node.ErrNotFound if it
	// does not exist.
	DeleteRoute(ctx context.Context, net lnet.Net, gateway lnet.NID) error

	// Routing returns the state of forwarding and the router buffers.
	Routing() api.Routing
	// SetRouting enables or disables forwarding. Disabling continues after SetRouting has returned.
	// It returns node.ErrBusy if forwarding is still stopping.
	SetRouting(ctx context.Context, enabled bool) error
	// SetBuffers sets the numbers of router buffers. They take effect while the node forwards. A
	// negative number keeps the current value, 0 restores the default.
	SetBuffers(ctx context.Context, b api.Buffers) error

	// Globals returns the parameters in force.
	Globals() api.Globals
	// SetGlobals applies a change as a whole or not at all. Each parameter can be set, and each value is
	// one that a node can have.
	// SetGlobals returns node.ErrInvalid if values conflict.
	SetGlobals(ctx context.Context, c api.GlobalsChange) error

	// Rules returns the user policies, ordered by index.
	Rules() []selection.Rule
	// TypedRules returns the rules of the typed table, ordered by ID.
	TypedRules() []selection.TypedRule
	// ChangePolicies calls change with both tables and applies the result. If change returns an
	// error, nothing is changed.
	ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error

	// Explain returns the path that a message to a NID would take, and why. If source is zero, the
	// node chooses it. Explain changes nothing.
	Explain(to, source lnet.NID, portal uint32) selection.Explanation

	// AddFault adds a fault rule.
	AddFault(r fault.Rule) error
	// RemoveFaults removes the rules with these filters and returns their number.
	RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int
	// Faults lists the rules of a kind, the newest first.
	Faults(k fault.Kind) []fault.Status
	// ResetFaults resets the counters of the rules.
	ResetFaults()

	// Selftest returns LNet selftest.
	Selftest() Selftest

	// Clients returns the clients for which transfer machines are hosted.
	Clients() api.Clients
	// DropClient disconnects a client, and does not wait until its operations have ended. It
	// returns ENOENT if no client has the ID.
	DropClient(id uint64) error

	// Stats returns the node's counters.
	Stats() api.Stats
	// ResetCounters resets the counters of the node, all NIs and all peer NIs.
	ResetCounters()
}
