package peering

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Counters are the event counters that all drivers share. The zero value is ready to use. Counters are safe
// for concurrent use.
type Counters struct {
	Connects        atomic.Uint64 // connections opened by this node
	CallFailures    CallFailures  // permanent failures of attempts to connect
	Accepts         atomic.Uint64 // connections opened by peers
	Refused         Refusals      // callers that were refused
	Closes          atomic.Uint64 // closed connections, by either side
	PeersDown       atomic.Uint64 // reports that a peer was lost (PeerDown)
	PeersRestarted  atomic.Uint64 // restarts of peers
	ProtocolErrors  atomic.Uint64 // connections on which the peer broke the protocol
	PendingTimeouts atomic.Uint64 // messages that waited too long for a connection
	Stalls          atomic.Uint64 // times that a peer stopped answering
}

// List returns the counters for Interface.Counters. It adds the current numbers of peers and of messages that
// wait for a connection. The driver supplies conns, the number of its connections, and calls, the number of
// its calls that wait to start.
func (e *Engine[P]) List(conns, calls int) []lnd.Counter {
	var peers, pending uint64
	for _, p := range e.Of(lnet.NID{}) {
		c := p.Common()
		c.Lock()
		peers++
		pending += uint64(c.Waiting.Len())
		c.Unlock()
	}
	c := &e.Count
	refused, failed := c.Refused.Counts(), c.CallFailures.Counts()
	return []lnd.Counter{
		{Name: "peers", Value: peers, Help: "Peers that the driver has in its table."},
		{Name: "connections", Value: uint64(conns), Help: "Connections that are up."},
		{Name: "pending_messages", Value: pending, Help: "Messages that wait for a connection."},
		{Name: "waiting_calls", Value: uint64(calls), Help: "Peers that wait for an attempt to connect."},
		{Name: "connects_total", Value: c.Connects.Load(), Help: "Connections that this node opened."},
		{Name: "connect_failures_total", Value: failed.Total(), Help: "Attempts to connect to a peer that failed."},
		{Name: "accepts_total", Value: c.Accepts.Load(), Help: "Connections that peers opened."},
		{Name: "refused_total", Value: refused.Total(), Help: "Callers that were refused."},
		{Name: "closes_total", Value: c.Closes.Load(), Help: "Connections that were closed."},
		{Name: "peers_down_total", Value: c.PeersDown.Load(), Help: "Times that a peer was lost."},
		{Name: "peers_restarted_total", Value: c.PeersRestarted.Load(), Help: "Times that a peer restarted."},
		{Name: "protocol_errors_total", Value: c.ProtocolErrors.Load(), Help: "Connections closed because the peer violated the protocol."},
		{Name: "pending_timeouts_total", Value: c.PendingTimeouts.Load(), Help: "Messages that failed because no connection was established in time."},
		{Name: "stalls_total", Value: c.Stalls.Load(), Help: "Times that a peer stopped answering."},
	}
}
