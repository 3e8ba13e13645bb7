package socklnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
)

// counters are the event counters of an interface that only this driver has. Bytes are counted by the ledger.
type counters struct {
	checksumErrors   atomic.Uint64
	receiveTimeouts  atomic.Uint64
	sendTimeouts     atomic.Uint64
	keepalives       atomic.Uint64 // NOOPs sent to a silent peer
	acknowledgements atomic.Uint64 // zero-copy requests acknowledged
}

func (c *counters) list(m moved) []lnd.Counter {
	return []lnd.Counter{
		{Name: "checksum_errors_total", Value: c.checksumErrors.Load(), Help: "Messages that arrived damaged."},
		{Name: "receive_timeouts_total", Value: c.receiveTimeouts.Load(), Help: "Connections closed because the rest of a message did not arrive in time."},
		{Name: "send_timeouts_total", Value: c.sendTimeouts.Load(), Help: "Connections closed because the peer received no data in time."},
		{Name: "keepalives_total", Value: c.keepalives.Load(), Help: "Keepalive messages sent to silent peers."},
		{Name: "zc_acks_total", Value: c.acknowledgements.Load(), Help: "Zero-copy requests of peers that were acknowledged."},
		{Name: "sent_bytes_total", Value: m.sent, Help: "Bytes sent, headers included."},
		{Name: "received_bytes_total", Value: m.received, Help: "Bytes received, headers included."},
		{Name: "copied_bytes_total", Value: m.copied, Help: "Bytes of payload that were copied on arrival."},
	}
}
