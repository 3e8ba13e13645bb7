package statuspage

import (
	"context"
	"iter"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Source provides what the page shows, in the form of the control interface. The daemon's backend implements it. The
// methods must be safe for concurrent use.
type Source interface {
	Node
	Version() api.Version
	// Peers yields the peers with IDs greater than after, ordered by ID. An error ends the sequence. The NIs of a peer
	// are valid only until the next iteration.
	Peers(ctx context.Context, after discovery.PeerID) iter.Seq2[api.Peer, error]
	Routes() []api.Route
	Routing() api.Routing
	Globals() api.Globals
	Clients() api.Clients
}

// Node provides what decides whether an lnetd is alive and ready.
type Node interface {
	// LNetDown reports whether LNet is not configured. The methods below need not be called then.
	LNetDown() bool
	Nets() []api.Net
	// Waiting returns the NIs whose interface is not usable yet.
	Waiting() []api.WaitingNI
	// Stuck returns the names of parts of the node that make no progress, or "".
	Stuck() string
}
