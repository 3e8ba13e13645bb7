package metrics

import (
	"context"
	"iter"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Source is what the counters are read from: *node.Node; or a Host too. Its methods are
// called at every scrape, from any goroutine.
type Source interface {
	Counters() node.Counters
	Drops() node.DropCounts
	NIs() []node.NIInfo
	PeersAfter(ctx context.Context, id discovery.PeerID) iter.Seq2[node.PeerInfo, error]
	PeerNIs() node.PeerNIsInfo
	Activity(ctx context.Context) (node.Activity, error)
	Routes() []node.RouteInfo
	Routing() node.RoutingInfo
}

// Host is a Source that hosts transfer machines for clients, serves LNet selftest, and
// has a configuration.
type Host interface {
	Source
	// ClientTotals are those of the clients.
	ClientTotals() []clients.Total
	// WaitingNIs are the NIs whose interface cannot be used yet.
	WaitingNIs() []WaitingNI
	// RDMAPorts are those of the RDMA devices that NIs are on.
	RDMAPorts() []RDMAPort
	// Selftest is what LNet selftest does.
	Selftest() Selftest
	// Configuration is what has become of the configuration.
	Configuration() Configuration
}

// WaitingNI is an NI whose interface cannot be used yet.
type WaitingNI struct {
	Net lnet.Net
	// NI is what it is called, such as tcp(eth0).
	NI string
}

// RDMAPort is a port of an RDMA device.
type RDMAPort struct {
	Device, Port string
	// Counters are the kernel's and the device's, by the names that these give them.
	Counters map[string]uint64
}

// Selftest is what LNet selftest does on a node.
type Selftest struct {
	// Enabled says that it is served. All else is zero if it is not.
	Enabled bool
	// Node says that the node takes part in a session, Console that it is the console
	// of one.
	Node, Console bool
	// Servers and Clients are the tests of the session in which the node is one or the
	// other, Units what runs of the latter.
	Servers, Clients, Units int
	// RPCs are those since it was enabled.
	RPCs message.RPCCounters
	// BRWErrors and PingErrors are those of the session.
	BRWErrors, PingErrors uint32
}

// Configuration is what has become of a configuration.
type Configuration struct {
	// SHA256 is that of the file which was read last, in hex; empty if there is none.
	SHA256 string
	// Loaded is when the configuration that holds was read.
	Loaded time.Time
	// Succeeded and Failed count reloads, Partial those of the former of which a part
	// needs a restart.
	Succeeded, Partial, Failed uint64
	// Last is when a reload last ended, zero if none has, and LastFailed says how.
	Last       time.Time
	LastFailed bool
}
