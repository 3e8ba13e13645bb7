package mpilnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
)

// counters are the counters of a driver.
type counters struct {
	links, closes, down, restarts, protocolErrors, stalls, failures atomic.Uint64
	shorts, larges, gets, copied, discarded, noTag, creditsAlone    atomic.Uint64
}

// Counters implements lnd.Interface. The counters belong to the driver: they include those of former interfaces.
func (i *ni) Counters() []lnd.Counter {
	c := &i.d.count
	return []lnd.Counter{
		{Name: "links_total", Value: c.links.Load(), Help: "Links that were opened with peers."},
		{Name: "closes_total", Value: c.closes.Load(), Help: "Links that have ended."},
		{Name: "peers_down_total", Value: c.down.Load(), Help: "Times that a peer was lost."},
		{Name: "peers_restarted_total", Value: c.restarts.Load(), Help: "Times that a peer restarted."},
		{Name: "protocol_errors_total", Value: c.protocolErrors.Load(), Help: "Links ended because the peer violated the protocol."},
		{Name: "stalls_total", Value: c.stalls.Load(), Help: "Times that a peer stopped answering."},
		{Name: "mpi_failures_total", Value: c.failures.Load(), Help: "Requests of MPI that failed."},
		{Name: "short_messages_total", Value: c.shorts.Load(), Help: "Messages that were sent with their payload."},
		{Name: "large_messages_total", Value: c.larges.Load(), Help: "Messages whose payload was sent separately."},
		{Name: "optimized_gets_total", Value: c.gets.Load(), Help: "GETs whose answer was received into their memory."},
		{Name: "copied_payloads_total", Value: c.copied.Load(), Help: "Separate payloads that were received into memory of the driver and copied."},
		{Name: "discarded_payloads_total", Value: c.discarded.Load(), Help: "Separate payloads that were received and discarded."},
		{Name: "no_tag_total", Value: c.noTag.Load(), Help: "Messages that found all tags of MPI in use."},
		{Name: "credit_messages_total", Value: c.creditsAlone.Load(), Help: "Messages that only returned credits."},
	}
}
