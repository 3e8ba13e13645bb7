package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/transport"
)

// clientsNoRule is the label of clients for whom there is no rule; no rule has such a
// name, which is two words.
const clientsNoRule = "no rule"

func clientDesc(name, help string, labels ...string) *prometheus.Desc {
	return desc("client_"+name, help, append([]string{"rule"}, labels...)...)
}

var (
	clientsDesc          = desc("clients", "Processes that transfer machines are hosted for, by their rule.", "rule")
	clientTMsDesc        = clientDesc("tms", "Transfer machines of clients.")
	clientBuffersDesc    = clientDesc("buffers", "Buffers that clients have registered.")
	clientMemoryDesc     = clientDesc("memory_bytes", "Memory that clients share with lnetd.")
	clientDepthDesc      = clientDesc("operations", "Operations of clients under way.", "queue")
	clientOperationsDesc = clientDesc("operations_total", "Completions of clients, by result: completed, failed.", "queue", "result")
	clientBytesDesc      = clientDesc("bytes_total", "Bytes moved for clients.", "queue")
	clientRequestsDesc   = clientDesc("requests_total", "Control requests of clients.")
	clientRejectedDesc   = clientDesc("rejected_operations_total", "Operations of clients that did not begin.")
	clientWaitsDesc      = clientDesc("waits_total", "Sleeps of lnetd for want of submissions of clients.")
	clientBellsDesc      = clientDesc("bells_total", "Bells rung, by who was woken: lnetd, client.", "woken")
	clientCutOffsDesc    = clientDesc("cut_offs_total", "Clients that were cut off.")
)

// collectClients shows the clients of each rule.
func collectClients(ch chan<- prometheus.Metric, totals []clients.Total) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for k := range totals {
		t := &totals[k]
		rule := t.Rule
		if rule == "" {
			rule = clientsNoRule
		}
		gauge(ch, clientsDesc, t.Clients, rule)
		gauge(ch, clientTMsDesc, t.TMs, rule)
		gauge(ch, clientBuffersDesc, t.Buffers, rule)
		gauge(ch, clientMemoryDesc, int(t.Bytes), rule)
		for q := range t.Queues {
			f, name := &t.Queues[q], transport.QueueType(q).String()
			gauge(ch, clientDepthDesc, f.Depth, rule, name)
			counter(clientOperationsDesc, f.Completed, rule, name, "completed")
			counter(clientOperationsDesc, f.Failed, rule, name, "failed")
			counter(clientBytesDesc, f.Bytes, rule, name)
		}
		counter(clientRequestsDesc, t.Requests, rule)
		counter(clientRejectedDesc, t.Rejected, rule)
		counter(clientWaitsDesc, t.Waits, rule)
		counter(clientBellsDesc, t.BellReads, rule, "lnetd")
		counter(clientBellsDesc, t.BellWrites, rule, "client")
		counter(clientCutOffsDesc, t.CutOffs, rule)
	}
}
