package metrics

import (
	"context"
	"iter"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Source provides the counters of a node. A type that embeds *node.Node and *node.Admin implements it. If a
// Source is also a Host, its further metrics are exported too. The methods are called at every scrape and
// must be safe for concurrent use.
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

// Host is a Source with further metrics, which lnetd has: those of clients, of LNet selftest and of the
// configuration.
type Host interface {
	Source
	// ClientTotals returns the sums of the counters of clients for each rule.
	ClientTotals() []clients.Total
	// Proxies returns the proxies that are attached, which are the drivers of NIs in other processes.
	Proxies() []proxies.Status
	// WaitingNIs returns the NIs whose interface is not usable yet.
	WaitingNIs() []WaitingNI
	// RDMAPorts returns the ports of the RDMA devices that NIs use.
	RDMAPorts() []hostnet.RDMAPort
	// Selftest returns the state of LNet selftest.
	Selftest() Selftest
	// Configuration returns the state of the configuration.
	Configuration() Configuration
	// LogStats returns the numbers of events that had no log line of their own.
	LogStats() boundedlog.Stats
}

// WaitingNI is an NI whose interface is not usable yet.
type WaitingNI struct {
	Net lnet.Net
	// NI is the operator's name for the NI, such as "tcp(eth0)".
	NI string
}

// Selftest is the state of LNet selftest on a node.
type Selftest struct {
	// Enabled reports whether selftest is enabled. If not, all other fields are zero.
	Enabled bool
	// Node reports whether the node takes part in a session. Console reports whether it is the console
	// of a session.
	Node, Console bool
	// Servers and Clients are the numbers of tests in the session in which the node is a server or a
	// client. Units is the number of units that run as clients now.
	Servers, Clients, Units int
	// RPCs counts RPCs since selftest was enabled.
	RPCs message.RPCCounters
	// BRWErrors and PingErrors are the numbers of errors in the session, by kind of test.
	BRWErrors, PingErrors uint32
}

// Configuration is the state of the configuration and its reloads.
type Configuration struct {
	// SHA256 is the hash of the file that was read last, in hex, or "" if there is no file.
	SHA256 string
	// Loaded is when the configuration in force was read.
	Loaded time.Time
	// Succeeded, Partial and Failed count reloads by their result. Partial means that a part of the
	// configuration takes effect only after a restart.
	Succeeded, Partial, Failed uint64
	// Last is when the last reload ended, or zero if there was no reload. LastFailed reports whether
	// that reload failed.
	Last       time.Time
	LastFailed bool
}
