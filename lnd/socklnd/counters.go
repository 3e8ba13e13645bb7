package socklnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
)

// counters are what an interface counts; connections count bytes themselves
// and hand them in when they close.
type counters struct {
	connects         atomic.Uint64 // connections that we opened
	connectFailures  atomic.Uint64 // hard failures of attempts to connect
	accepts          atomic.Uint64 // connections that peers opened
	refused          lnd.RefusalTally
	closes           atomic.Uint64 // connections closed
	peersDown        atomic.Uint64 // peers lost
	peersRestarted   atomic.Uint64 // new lives of peers
	protocolErrors   atomic.Uint64
	checksumErrors   atomic.Uint64
	receiveTimeouts  atomic.Uint64
	sendTimeouts     atomic.Uint64
	pendingTimeouts  atomic.Uint64
	stalls           atomic.Uint64 // times that a peer stopped answering
	keepalives       atomic.Uint64 // NOOPs sent to a silent peer
	acknowledgements atomic.Uint64 // zero-copy requests acknowledged
	bytesSent        atomic.Uint64
	bytesReceived    atomic.Uint64
	bytesCopied      atomic.Uint64 // of payloads that came
}

// liveCounts is what stands at the moment.
type liveCounts struct {
	peers, conns, pending    uint64
	waitingCalls             uint64 // peers that wait to be called
	bytesSent, bytesReceived uint64
	bytesCopied              uint64
}

func (c *counters) list(live liveCounts) []lnd.Counter {
	refused := c.refused.Counts()
	return []lnd.Counter{
		{Name: "peers", Value: live.peers},
		{Name: "connections", Value: live.conns},
		{Name: "pending_messages", Value: live.pending},
		{Name: "waiting_calls", Value: live.waitingCalls},
		{Name: "connects_total", Value: c.connects.Load()},
		{Name: "connect_failures_total", Value: c.connectFailures.Load()},
		{Name: "accepts_total", Value: c.accepts.Load()},
		{Name: "refused_total", Value: refused.Total()},
		{Name: "closes_total", Value: c.closes.Load()},
		{Name: "peers_down_total", Value: c.peersDown.Load()},
		{Name: "peers_restarted_total", Value: c.peersRestarted.Load()},
		{Name: "protocol_errors_total", Value: c.protocolErrors.Load()},
		{Name: "checksum_errors_total", Value: c.checksumErrors.Load()},
		{Name: "receive_timeouts_total", Value: c.receiveTimeouts.Load()},
		{Name: "send_timeouts_total", Value: c.sendTimeouts.Load()},
		{Name: "pending_timeouts_total", Value: c.pendingTimeouts.Load()},
		{Name: "stalls_total", Value: c.stalls.Load()},
		{Name: "keepalives_total", Value: c.keepalives.Load()},
		{Name: "zc_acks_total", Value: c.acknowledgements.Load()},
		{Name: "sent_bytes_total", Value: c.bytesSent.Load() + live.bytesSent},
		{Name: "received_bytes_total", Value: c.bytesReceived.Load() + live.bytesReceived},
		{Name: "copied_bytes_total", Value: c.bytesCopied.Load() + live.bytesCopied},
	}
}
