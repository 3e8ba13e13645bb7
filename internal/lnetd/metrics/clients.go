package metrics

import (
	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/transport"
)

// clientsNoRule is the value of the label "rule" for clients without a rule. No rule can have this name,
// because names of rules contain no blanks.
const clientsNoRule = "no rule"

var (
	clientsByRule    = gaugeFamily("lnet_clients", "Client processes that are connected, by their rule.", "rule")
	clientTMs        = gaugeFamily("lnet_client_tms", "Transfer machines of clients.", "rule")
	clientBuffers    = gaugeFamily("lnet_client_buffers", "Buffers that clients have registered.", "rule")
	clientMemory     = gaugeFamily("lnet_client_memory_bytes", "Memory that clients share with lnetd.", "rule")
	clientDepth      = gaugeFamily("lnet_client_operations", "Operations of clients in progress.", "rule", "queue")
	clientOperations = counterFamily("lnet_client_operations_total", "Completed operations of clients, by result: completed, failed.", "rule", "queue", "result")
	clientBytes      = counterFamily("lnet_client_bytes_total", "Bytes moved for clients.", "rule", "queue")
	clientAdded      = counterFamily("lnet_client_added_operations_total", "Operations of clients that were passed to LNet, including those that it refused.", "rule", "queue")
	clientCancelled  = counterFamily("lnet_client_cancelled_operations_total", "Operations of clients that were cancelled. lnet_client_operations_total counts them as failed.", "rule", "queue")
	clientInQueue    = counterFamily("lnet_client_queue_seconds_total", "Total duration of the completed operations of clients.", "rule", "queue")
	clientMaxBytes   = gaugeFamily("lnet_client_max_bytes", "Largest number of bytes that one operation or message of a client has moved.", "rule", "queue")
	clientRequests   = counterFamily("lnet_client_requests_total", "Control requests of clients.", "rule")
	clientRejected   = counterFamily("lnet_client_rejected_operations_total", "Operations of clients that were rejected before they began.", "rule")
	clientWaits      = counterFamily("lnet_client_waits_total", "Times that lnetd slept until a client submitted something.", "rule")
	clientPolls      = counterFamily("lnet_client_polls_total", "Times that lnetd polled for submissions of a client before it slept, by the result: found, nothing.", "rule", "result")
	clientBells      = counterFamily("lnet_client_bells_total", "Wake-ups between lnetd and clients, by the side that was woken: lnetd, client.", "rule", "woken")
	clientCutOffs    = counterFamily("lnet_client_cut_offs_total", "Clients that lnetd disconnected, except when it stopped.", "rule")
)

// collectClients adds the metrics of the clients of each rule to the page.
func collectClients(p *page, totals []clients.Total) {
	for k := range totals {
		t := &totals[k]
		rule := t.Rule
		if rule == "" {
			rule = clientsNoRule
		}
		p.set(clientsByRule, float64(t.Clients), rule)
		p.set(clientTMs, float64(t.TMs), rule)
		p.set(clientBuffers, float64(t.Buffers), rule)
		p.set(clientMemory, float64(t.Bytes), rule)
		for q := range t.Queues {
			f, name := &t.Queues[q], transport.QueueType(q).String()
			p.set(clientDepth, float64(f.Depth), rule, name)
			p.count(clientOperations, f.Completed, rule, name, "completed")
			p.count(clientOperations, f.Failed, rule, name, "failed")
			p.count(clientBytes, f.Bytes, rule, name)
			p.count(clientAdded, f.Added, rule, name)
			p.count(clientCancelled, f.Cancelled, rule, name)
			p.set(clientInQueue, f.InQueue, rule, name)
			p.set(clientMaxBytes, float64(f.MaxBytes), rule, name)
		}
		p.count(clientRequests, t.Requests, rule)
		p.count(clientRejected, t.Rejected, rule)
		p.count(clientWaits, t.Waits, rule)
		p.count(clientPolls, t.Found, rule, "found")
		p.count(clientPolls, t.Polls-min(t.Found, t.Polls), rule, "nothing")
		p.count(clientBells, t.BellReads, rule, "lnetd")
		p.count(clientBells, t.BellWrites, rule, "client")
		p.count(clientCutOffs, t.CutOffs, rule)
	}
}
