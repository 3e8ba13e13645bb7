package server

import (
	"context"
	"iter"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/fault"
	"github.com/lnetd/lnetd/selection"
)

// Backend is the daemon as the control interface sees it. Its methods are
// called from many goroutines at once, those that change something within InTurn,
// one after the other. Their errors may be Faults; others are classified by Errno.
type Backend interface {
	// InTurn calls do when nobody else changes the node's configuration: what do has
	// found then still holds when it acts. If ctx ends before, InTurn returns the
	// cause of that and does not call do.
	InTurn(ctx context.Context, do func()) error

	// Version says who the daemon is.
	Version() api.Version

	// Log says how lnetd logs.
	Log() api.Log
	// SetLog changes the level, which is one of api.LogLevels. It does not wait for
	// changes under way.
	SetLog(level string) error

	// Nets returns all nets, lo first, then in the order of their making.
	Nets() []api.Net
	// SetNIHealth sets the health of an NI, 0 to 1000; the zero NID stands for
	// all but 0@lo. node.ErrNotFound: there is none with the NID.
	SetNIHealth(nid lnet.NID, value int) error

	// Waiting are the NIs whose interface cannot be used yet. The caller owns them.
	Waiting() []api.WaitingNI
	// AddNet brings NIs up, all of them or none. Exactly one of the three ways to name
	// them is given. The warnings are for the operator.
	AddNet(ctx context.Context, r api.NetAddition) (warnings []string, err error)
	// DeleteNet takes NIs away. node.ErrNotFound: there are none such.
	DeleteNet(ctx context.Context, r api.NetDeletion) error
	// SetNITunables changes NIs that are up. node.ErrNotFound: there is none such.
	SetNITunables(ctx context.Context, r api.NITunables) error

	// LNetDown tells whether LNet is not configured: then nothing is asked for that
	// needs it.
	LNetDown() bool
	// SetLNet configures LNet, or ends that. EBUSY: it is in use.
	SetLNet(ctx context.Context, r api.LNet) error
	// Configuration is what the node is configured to be.
	Configuration(ctx context.Context) (api.Configuration, error)
	// ChangeConfiguration changes it by a document, whole or not at all, or says what
	// that would do: then it is called out of turn, and needs one itself only to read what
	// the node is.
	ChangeConfiguration(ctx context.Context, r api.ConfigurationChange) (api.ConfigurationChanged, error)
	// Described says what there is of what a document describes. It and Errands change nothing.
	Described(ctx context.Context, d api.Document) (api.Described, error)
	// Errands are the pings and discoveries that a document asks for.
	Errands(ctx context.Context, d api.Document) ([]api.Errand, error)

	// Recovery says who is pinged until it is well.
	Recovery() api.Recovery
	// CPTs are the CPU partitions of the machine.
	CPTs() []api.CPT
	// CPT is the CPU partition that messages with a NID belong to.
	CPT(nid lnet.NID) int

	// Ping pings one process and blocks until it answers, or ctx is done, or
	// the ping has failed. A zero source lets the node choose.
	Ping(ctx context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error)
	// Discover discovers the peer that has the NID, and blocks as Ping does;
	// 0@lo is the node itself. With force it does so even if the peer is up to
	// date.
	Discover(ctx context.Context, nid lnet.NID, force bool) (api.Peer, error)

	// Peers yields the peers that are younger than the one with the ID, 0: all,
	// the oldest first, but not that of 0@lo alone; an error is the last thing
	// that comes (node.Node.PeersAfter). NIs are valid until the next one comes.
	Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error]
	// Peer returns the peer that has the NID, if one has.
	Peer(nid lnet.NID) (api.Peer, bool)
	// AddPeer makes a peer as an administrator wants it, or adds NIDs to it,
	// all of them or none (discovery.Machine.Configure).
	AddPeer(ctx context.Context, primary lnet.NID, others []lnet.NID, o discovery.ConfigureOptions) error
	// DeletePeer deletes a peer; force is for one whose primary NID is locked.
	DeletePeer(ctx context.Context, primary lnet.NID, force bool) error
	// DeletePeerNIDs takes NIDs, not the primary one, away from a peer that has
	// them.
	DeletePeerNIDs(ctx context.Context, primary lnet.NID, nids []lnet.NID) error
	// SetPeerHealth sets the health of a peer NI as SetNIHealth does; the zero
	// NID stands for all.
	SetPeerHealth(nid lnet.NID, value int) error

	// SetPeerState sets what a peer is, for tests; the zero NID stands for all peers.
	// discovery.ErrNotFound: no peer has the NID.
	SetPeerState(ctx context.Context, nid lnet.NID, state uint32) error

	// Routes returns all routes in the order of their making.
	Routes() []api.Route
	// AddRoute adds a route; it looks at Net, Gateway, Hops and Priority alone.
	AddRoute(ctx context.Context, r api.Route) error
	// DeleteRoute deletes the route to a net by a gateway. node.ErrNotFound.
	DeleteRoute(ctx context.Context, net lnet.Net, gateway lnet.NID) error

	// Routing says whether the node forwards, and with what.
	Routing() api.Routing
	// SetRouting has the node forward, or stop that, which takes its time after
	// SetRouting has returned. node.ErrBusy: it is still stopping.
	SetRouting(ctx context.Context, enabled bool) error
	// SetBuffers sets the numbers of router buffers, in force when the node
	// forwards: negative for as it is, 0 for the default.
	SetBuffers(ctx context.Context, b api.Buffers) error

	// Globals are the parameters in force. RecoveryInterval is filled in by the
	// server.
	Globals() api.Globals
	// SetGlobals puts all of a change in force, or nothing. Each value is within
	// its own range; those that do not go together are node.ErrInvalid.
	SetGlobals(ctx context.Context, c api.GlobalsChange) error

	// Rules are the user policies by place.
	Rules() []selection.Rule
	// TypedRules are the rules of the typed table by ID.
	TypedRules() []selection.TypedRule
	// ChangePolicies changes both and applies them; on an error of change
	// nothing has happened.
	ChangePolicies(ctx context.Context, change func(p *selection.Policies) error) error

	// Explain says how a message to a NID would travel, and why. A zero source
	// leaves that to the choice. It changes nothing.
	Explain(to, source lnet.NID, portal uint32) selection.Explanation

	// AddFault adds a fault rule.
	AddFault(r fault.Rule) error
	// RemoveFaults removes the rules with these filters and returns their
	// number.
	RemoveFaults(k fault.Kind, source, dest fault.NIDFilter) int
	// Faults lists the rules of a kind, the newest first.
	Faults(k fault.Kind) []fault.Status
	// ResetFaults zeroes what the rules have counted.
	ResetFaults()

	// Selftest is LNet selftest.
	Selftest() Selftest

	// Clients are those for whom transfer machines are hosted.
	Clients() api.Clients
	// DropClient cuts one off, and does not wait for its end. ENOENT: there is none of
	// that number.
	DropClient(id uint64) error

	// Stats are the node's counters.
	Stats() api.Stats
	// ResetCounters zeroes them, and those of all NIs and peer NIs.
	ResetCounters()
}
