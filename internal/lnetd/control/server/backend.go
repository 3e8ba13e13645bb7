package server

import (
	"context"
	"iter"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/capture"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// Backend is the part of the daemon that the control interface uses. Its methods must be safe for
// concurrent use. The server calls methods that change the node only within InTurn, unless noted
// otherwise. If an error is or contains an *api.Fault, the client gets that; otherwise the server makes a
// Fault from the result of Errno.
type Backend interface {
	// InTurn waits until no other change of the node's configuration runs, and then calls do. So what do
	// has checked stays valid until it makes its change. If ctx ends first, InTurn returns the cause and
	// does not call do.
	InTurn(ctx context.Context, do func()) error

	// Version returns the version of the daemon.
	Version() api.Version

	// Log returns the settings of the log.
	Log() api.Log
	// SetLog sets the log level to one of api.LogLevels. It is called outside InTurn, so that it does not
	// wait for a change.
	SetLog(level string) error

	// Nets returns all nets: lo first, then the others in the order of creation.
	Nets() []api.Net
	// SetNIHealth sets the health of an NI, 0 to 1000. The zero NID stands for all NIs except 0@lo.
	// It returns node.ErrNotFound if no NI has the NID.
	SetNIHealth(nid lnet.NID, value int) error

	// Waiting returns the NIs whose interface is not usable yet. The caller may change the slice.
	Waiting() []api.WaitingNI
	// AddNet brings up NIs, all or none. The request names them in exactly one of three ways: by
	// Interfaces, NID or IP2Nets. The warnings are for the operator.
	AddNet(ctx context.Context, r api.NetAddition) (warnings []string, err error)
	// DeleteNet deletes NIs. It returns an error if the request matches no NI.
	DeleteNet(ctx context.Context, r api.NetDeletion) error
	// SetNITunables changes tunables of NIs, which stay up. It returns node.ErrNotFound if the request
	// matches no NI.
	SetNITunables(ctx context.Context, r api.NITunables) error

	// LNetDown reports whether LNet is not configured. In this case the server does not call methods
	// that need LNet.
	LNetDown() bool
	// SetLNet configures or unconfigures LNet. It returns EBUSY if LNet is in use.
	SetLNet(ctx context.Context, r api.LNet) error
	// Configuration returns the node's configuration.
	Configuration(ctx context.Context) (api.Configuration, error)
	// ChangeConfiguration changes the configuration according to a document, as a whole or not at
	// all. A dry run returns the changes without making them. It is called outside InTurn, and
	// calls InTurn itself only to read the node's state. If r.Minimal is set, the result need not
	// have the configurations before and after the change.
	ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error)
	// Described returns the current state of the entries in a document, except peers. Of these it
	// returns the NIDs that the document names, in order. It changes nothing.
	Described(ctx context.Context, d api.Document) (api.Described, []lnet.NID, error)
	// Errands returns the pings and discoveries that a document requests. It does not run them.
	Errands(ctx context.Context, d api.Document) ([]api.Errand, error)

	// Recovery returns the NIDs of the NIs and peer NIs that are in recovery, which means that they are
	// pinged until their health is full.
	Recovery() api.Recovery
	// CPTs returns the CPU partitions of the host.
	CPTs() []api.CPT
	// CPT returns the CPU partition to which LNet's hash assigns a NID.
	CPT(nid lnet.NID) int

	// Ping pings one process. It blocks until the process answers, the ping fails, or ctx is done.
	// If source is zero, the node chooses it.
	Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error)
	// Discover discovers the peer that has the NID. It blocks until discovery has ended or ctx is done.
	// The NID 0@lo means the local node. If force is set, a peer is discovered again even if the node's
	// data about it is up to date.
	Discover(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error)

	// Peers yields the peers with IDs greater than after, ordered by ID. If after is 0, it yields all
	// peers. It omits a peer that is only this node itself. An error ends the sequence (see
	// node.Admin.PeersAfter). The NIs of a peer are valid only until the next iteration.
	Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error]
	// PeersOf yields the peers that have the given NIDs, in the order of the NIDs, and each peer once. It
	// skips NIDs without a peer. Otherwise it is like Peers. The sequence can be used once.
	PeersOf(ctx context.Context, nids []lnet.NID) iter.Seq2[api.Peer, error]
	// Peer returns the peer that has the NID, or false if no peer has it.
	Peer(nid lnet.NID) (api.Peer, bool)
	// AddPeer creates a configured peer or, if the peer exists, adds NIDs to it, all or none (see
	// discovery.Machine.Configure).
	AddPeer(ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions) error
	// DeletePeer deletes a peer. If the peer's primary NID is locked, it does so only if force is set.
	DeletePeer(ctx context.Context, primary lnet.NID, force bool) error
	// DeletePeerNIDs deletes NIDs of a peer. The peer must have all of them, and the primary NID cannot
	// be deleted.
	DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error
	// SetPeerHealth sets the health of a peer NI, 0 to 1000. The zero NID stands for all peer NIs.
	SetPeerHealth(nid lnet.NID, value int) error

	// SetPeerState sets the state flags of the peer that has the NID, for tests. The zero NID stands for
	// all peers. It returns discovery.ErrNotFound if no peer has the NID.
	SetPeerState(ctx context.Context, nid lnet.NID, state uint32) error

	// Routes returns all routes in the order of creation.
	Routes() []api.Route
	// AddRoute adds a route. It uses only Net, Gateway, Hops and Priority.
	AddRoute(ctx context.Context, r api.Route) error
	// DeleteRoute deletes the route to a net through a gateway. It returns node.ErrNotFound if it
	// does not exist.
	DeleteRoute(ctx context.Context, net lnet.Net, gateway lnet.NID) error

	// Routing returns the state of routing and the router buffers.
	Routing() api.Routing
	// SetRouting enables or disables routing. The node may continue to forward messages for some time
	// after SetRouting has disabled it. SetRouting returns node.ErrBusy if routing is to be enabled
	// while it is still stopping.
	SetRouting(ctx context.Context, enabled bool) error
	// SetBuffers sets the numbers of router buffers, which have an effect only while the node is a
	// router. A negative number keeps the current value. 0 restores the default.
	SetBuffers(ctx context.Context, b api.Buffers) error

	// Globals returns the parameters in force.
	Globals() api.Globals
	// SetGlobals changes parameters, all or none. The caller has checked that each parameter exists and
	// that each value is in its range. SetGlobals returns node.ErrInvalid if values conflict.
	SetGlobals(ctx context.Context, c api.GlobalsChange) error

	// Rules returns the "udsp" rules, ordered by index.
	Rules() []selection.Rule
	// TypedRules returns the "selection" rules, ordered by ID.
	TypedRules() []selection.TypedRule
	// ChangePolicies calls change with a copy of the "udsp" and "selection" rules, and replaces the
	// rules by what change makes of it. If change returns an error, the rules stay as they are.
	ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error

	// Explain returns the path that a message to a NID would take, and why. If source is zero, the
	// node chooses it. Explain changes nothing.
	Explain(to, source lnet.NID, portal uint32) selection.Explanation

	// AddFault adds a fault rule.
	AddFault(r fault.Rule) error
	// RemoveFaults removes the fault rules of a kind that have these filters, and returns their number.
	RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int
	// Faults returns the fault rules of a kind, the newest first.
	Faults(k fault.Kind) []fault.Status
	// ResetFaults resets the counters of all fault rules.
	ResetFaults()

	// Selftest returns the interface to LNet selftest on this node.
	Selftest() Selftest

	// Clients returns the clients for which transfer machines are hosted.
	Clients() api.Clients
	// DropClient disconnects a client, and does not wait until its operations have ended. It
	// returns ENOENT if no client has the ID.
	DropClient(id uint64) error

	// Events returns the events that the filter selects. The kinds in it exist.
	Events(f api.EventFilter) Stream
	// Capture starts to record messages, until ctx is done. The server limits how many captures run at a time.
	Capture(ctx context.Context, f capture.Filter) (Stream, error)

	// Stats returns the node's counters.
	Stats() api.Stats
	// ResetCounters resets the counters of the node, all NIs and all peer NIs.
	ResetCounters()
}
