package metrics

import (
	"context"
	"iter"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Source provides the counters of a node: a type that embeds *node.Node and *node.Admin implements
// it. A Source may also be a Host. Its methods are called at every scrape, from any goroutine.
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

// Host is a Source that also hosts clients, serves LNet selftest, and has a configuration.
type Host interface {
	Source
	// ClientTotals returns the totals of the clients by rule.
	ClientTotals() []clients.Total
	// WaitingNIs returns the NIs whose interface is not usable yet.
	WaitingNIs() []WaitingNI
	// RDMAPorts returns the ports of the RDMA devices that NIs use.
	RDMAPorts() []hostnet.RDMAPort
	// Selftest returns the state of LNet selftest.
	Selftest() Selftest
	// Configuration returns the state of the configuration.
	Configuration() Configuration
}

// WaitingNI is an NI whose interface is not usable yet.
type WaitingNI struct {
	Net lnet.Net
	// NI is its name, such as tcp(eth0).
	NI string
}

// Selftest is the state of LNet selftest on a node.
type Selftest struct {
	// Enabled reports whether selftest is enabled. If not, all other fields are zero.
	Enabled bool
	// Node reports whether the node takes part in a session, Console whether it is the console of
	// one.
	Node, Console bool
	// Servers and Clients are the numbers of tests in the session that the node serves and drives.
	// Units is the number of running units of the latter.
	Servers, Clients, Units int
	// RPCs counts RPCs since selftest was enabled.
	RPCs message.RPCCounters
	// BRWErrors and PingErrors are the errors of the session.
	BRWErrors, PingErrors uint32
}

// Configuration is the state of the configuration and its reloads.
type Configuration struct {
	// SHA256 is the hash of the file that was read last, in hex, or "" if there is no file.
	SHA256 string
	// Loaded is when the configuration in force was read.
	Loaded time.Time
	// Succeeded and Failed count reloads. Partial counts the successful ones that left a part to a
	// restart.
	Succeeded, Partial, Failed uint64
	// Last is when a reload last ended, or zero. LastFailed reports whether it failed.
	Last       time.Time
	LastFailed bool
}
