package socklnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/peering"
)

// counters are an interface's event counters. The ledger counts bytes.
type counters struct {
	connects         atomic.Uint64        // connections opened by this node
	callFailures     peering.CallFailures // permanent failures of attempts to connect
	accepts          atomic.Uint64        // connections opened by peers
	refused          peering.Refusals
	closes           atomic.Uint64 // connections closed
	peersDown        atomic.Uint64 // peers lost
	peersRestarted   atomic.Uint64 // restarts of peers
	protocolErrors   atomic.Uint64
	checksumErrors   atomic.Uint64
	receiveTimeouts  atomic.Uint64
	sendTimeouts     atomic.Uint64
	pendingTimeouts  atomic.Uint64
	stalls           atomic.Uint64 // times that a peer stopped answering
	keepalives       atomic.Uint64 // NOOPs sent to a silent peer
	acknowledgements atomic.Uint64 // zero-copy requests acknowledged
}

// liveCounts holds current values.
type liveCounts struct {
	peers, pending uint64
	waitingCalls   uint64 // peers that wait for an attempt to connect
	conns          int
	moved          moved
}

func (c *counters) list(live liveCounts) []lnd.Counter {
	refused, failed := c.refused.Counts(), c.callFailures.Counts()
	return []lnd.Counter{
		{Name: "peers", Value: live.peers, Help: "Peers that the driver has in its table."},
		{Name: "connections", Value: uint64(live.conns), Help: "Connections that are up."},
		{Name: "pending_messages", Value: live.pending, Help: "Messages that wait for a connection."},
		{Name: "waiting_calls", Value: live.waitingCalls, Help: "Peers that wait for their turn to be called."},
		{Name: "connects_total", Value: c.connects.Load(), Help: "Connections that were opened from here."},
		{Name: "connect_failures_total", Value: failed.Total(), Help: "Times that a peer could not be called."},
		{Name: "accepts_total", Value: c.accepts.Load(), Help: "Connections that peers opened."},
		{Name: "refused_total", Value: refused.Total(), Help: "Callers that were turned away."},
		{Name: "closes_total", Value: c.closes.Load(), Help: "Connections that were closed."},
		{Name: "peers_down_total", Value: c.peersDown.Load(), Help: "Times that a peer was lost."},
		{Name: "peers_restarted_total", Value: c.peersRestarted.Load(), Help: "Times that a peer began a new life."},
		{Name: "protocol_errors_total", Value: c.protocolErrors.Load(), Help: "Connections ended by something that makes no sense."},
		{Name: "checksum_errors_total", Value: c.checksumErrors.Load(), Help: "Messages that arrived damaged."},
		{Name: "receive_timeouts_total", Value: c.receiveTimeouts.Load(), Help: "Connections closed since a message stopped arriving."},
		{Name: "send_timeouts_total", Value: c.sendTimeouts.Load(), Help: "Connections closed since the peer did not take what was sent."},
		{Name: "pending_timeouts_total", Value: c.pendingTimeouts.Load(), Help: "Messages that waited for a connection in vain."},
		{Name: "stalls_total", Value: c.stalls.Load(), Help: "Times that a peer stopped answering."},
		{Name: "keepalives_total", Value: c.keepalives.Load(), Help: "Messages sent to see whether a silent peer is there."},
		{Name: "zc_acks_total", Value: c.acknowledgements.Load(), Help: "Zero-copy requests of peers that were acknowledged."},
		{Name: "sent_bytes_total", Value: live.moved.sent, Help: "Bytes sent, headers included."},
		{Name: "received_bytes_total", Value: live.moved.received, Help: "Bytes received, headers included."},
		{Name: "copied_bytes_total", Value: live.moved.copied, Help: "Bytes of payload that were copied on arrival."},
	}
}
