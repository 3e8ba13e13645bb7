package metrics

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Source is what the counters are read from: *node.Node; or a Host too. Its methods are
// called at every scrape, from any goroutine.
type Source interface {
	Counters() node.Counters
	Drops() node.DropCounts
	NIs() []node.NIInfo
	PeersAfter(ctx context.Context, id discovery.PeerID) iter.Seq2[node.PeerInfo, error]
	PeerNIs() node.PeerNIsInfo
	Routes() []node.RouteInfo
	Routing() node.RoutingInfo
}

// Host is a Source that hosts transfer machines for clients.
type Host interface {
	Source
	// ClientTotals are those of the clients.
	ClientTotals() []clients.Total
	// WaitingNIs is the number of NIs whose interface cannot be used yet.
	WaitingNIs() int
}

// collector reads a Source. It is unchecked: drivers name counters of their
// own.
type collector struct {
	source Source
}

// Labels of an NI's metrics.
var niLabels = []string{"net", "nid", "device"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lnet_"+name, help, labels, nil)
}

func niDesc(name, help string, labels ...string) *prometheus.Desc {
	return desc("ni_"+name, help, append(append([]string(nil), niLabels...), labels...)...)
}

var (
	waitingDesc      = desc("interfaces_waiting", "NIs that are configured and whose network interface cannot be used yet.")
	committedDesc    = desc("messages_committed", "Messages under way.")
	committedMaxDesc = desc("messages_committed_max", "Most messages that were under way at once.")
	trackersDesc     = desc("response_trackers", "Requests whose response is awaited.")
	messagesDesc     = desc("messages_total", "Messages by what became of them.", "direction")
	bytesDesc        = desc("payload_bytes_total", "Payload by what became of its message.", "direction")
	failuresDesc     = desc("failures_total", "Messages that failed, by health class.", "class")
	resendsDesc      = desc("resends_total", "Messages sent again, by outcome: all of them, succeeded, failed.", "outcome")
	dropsDesc        = desc("dropped_messages_total", "Messages that were dropped, by reason.", "reason")
	timeoutsDesc     = desc("response_timeouts_total", "Requests whose response did not come in time.")

	niUpDesc       = niDesc("up", "1 while the NI's status is up.")
	niHealthDesc   = niDesc("health", "Health of the NI, 0 to 1000.")
	niMessagesDesc = niDesc("messages_total", "Messages by type. Sent ACKs count as put, sent REPLYs as get, as in Lustre.",
		"direction", "type")
	niFailuresDesc = niDesc("failures_total", "Messages that failed on the NI, by health class.", "class")
	niRefusalsDesc = niDesc("refused_callers_total", "Callers that were turned away, by reason.", "reason")
	niLatencyDesc  = niDesc("latency_seconds", "Latency; the quantiles 0 and 1 are its extremes.", "operation")
	niCreditsDesc  = niDesc("credits", "Credits of the NI: max, available (below 0: messages wait), min (lowest ever).", "kind")
)

// Describe implements prometheus.Collector; describing nothing makes the
// collector an unchecked one.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.collectNode(ch)
	for _, ni := range c.source.NIs() {
		n := niMetrics{ch: ch, labels: []string{ni.Net.String(), ni.NID.String(), ni.Device}}
		n.collect(&ni)
	}
	collectPeers(ch, c.source)
	collectRoutes(ch, c.source.Routes())
	collectRouter(ch, c.source.Routing())
	if h, ok := c.source.(Host); ok {
		collectClients(ch, h.ClientTotals())
		gauge(ch, waitingDesc, h.WaitingNIs())
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v int, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

func (c *collector) collectNode(ch chan<- prometheus.Metric) {
	k := c.source.Counters()
	gauge := func(d *prometheus.Desc, v uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(committedDesc, k.Committed)
	gauge(committedMaxDesc, k.CommittedMax)
	gauge(trackersDesc, k.Trackers)
	counter(messagesDesc, k.Sent, "sent")
	counter(messagesDesc, k.Received, "received")
	counter(messagesDesc, k.Routed, "routed")
	counter(messagesDesc, k.Dropped, "dropped")
	counter(bytesDesc, k.SentBytes, "sent")
	counter(bytesDesc, k.ReceivedBytes, "received")
	counter(bytesDesc, k.RoutedBytes, "routed")
	counter(bytesDesc, k.DroppedBytes, "dropped")
	counter(failuresDesc, k.LocalInterrupts, "local_interrupt")
	counter(failuresDesc, k.LocalDropped, "local_dropped")
	counter(failuresDesc, k.LocalAborted, "local_aborted")
	counter(failuresDesc, k.LocalNoRoute, "local_no_route")
	counter(failuresDesc, k.LocalTimeouts, "local_timeout")
	counter(failuresDesc, k.LocalErrors, "local_error")
	counter(failuresDesc, k.RemoteDropped, "remote_dropped")
	counter(failuresDesc, k.RemoteErrors, "remote_error")
	counter(failuresDesc, k.RemoteTimeouts, "remote_timeout")
	counter(failuresDesc, k.NetworkTimeouts, "network_timeout")
	counter(resendsDesc, k.Resent, "all")
	counter(resendsDesc, k.SuccessfulResends, "succeeded")
	counter(resendsDesc, k.FailedResends, "failed")
	counter(timeoutsDesc, k.ResponseTimeouts)
	for r, n := range c.source.Drops() {
		counter(dropsDesc, n, node.DropReason(r).String())
	}
}

// niMetrics collects the metrics of one NI.
type niMetrics struct {
	ch     chan<- prometheus.Metric
	labels []string
}

func (n niMetrics) with(more ...string) []string {
	return append(append([]string(nil), n.labels...), more...)
}

func (n niMetrics) gauge(d *prometheus.Desc, v float64, labels ...string) {
	n.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, n.with(labels...)...)
}

func (n niMetrics) counter(d *prometheus.Desc, v uint64, labels ...string) {
	n.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), n.with(labels...)...)
}

func (n niMetrics) collect(ni *node.NIInfo) {
	up := 0.0
	if ni.Status == lnet.StatusUp {
		up = 1
	}
	n.gauge(niUpDesc, up)
	n.gauge(niHealthDesc, float64(ni.Health.Value))
	n.messages("sent", ni.Traffic.Sent)
	n.messages("received", ni.Traffic.Received)
	n.messages("dropped", ni.Traffic.Dropped)
	n.counter(niFailuresDesc, ni.Health.Interrupts, "local_interrupt")
	n.counter(niFailuresDesc, ni.Health.Dropped, "local_dropped")
	n.counter(niFailuresDesc, ni.Health.Aborted, "local_aborted")
	n.counter(niFailuresDesc, ni.Health.NoRoute, "local_no_route")
	n.counter(niFailuresDesc, ni.Health.Timeouts, "local_timeout")
	n.counter(niFailuresDesc, ni.Health.Errors, "local_error")
	n.latency("put_egress", ni.Traffic.PutEgress)
	n.latency("get_rtt", ni.Traffic.GetRTT)
	n.latency("put_ack", ni.Traffic.PutAck)
	if ni.NID.IsLoopback() {
		return // it has neither credits nor a driver
	}
	n.gauge(niCreditsDesc, float64(ni.Credits.Max), "max")
	n.gauge(niCreditsDesc, float64(ni.Credits.Available), "available")
	n.gauge(niCreditsDesc, float64(ni.Credits.Min), "min")
	for r, count := range ni.Refusals {
		n.counter(niRefusalsDesc, count, lnd.Refusal(r).String())
	}
	n.driver(ni)
}

func (n niMetrics) messages(direction string, c node.MessageCounts) {
	n.counter(niMessagesDesc, c.Put, direction, "put")
	n.counter(niMessagesDesc, c.Get, direction, "get")
	n.counter(niMessagesDesc, c.Reply, direction, "reply")
	n.counter(niMessagesDesc, c.Ack, direction, "ack")
	n.counter(niMessagesDesc, c.Hello, direction, "hello")
}

func (n niMetrics) latency(operation string, l node.Latency) {
	var quantiles map[float64]float64
	if l.Samples > 0 {
		quantiles = map[float64]float64{0: l.Min.Seconds(), 1: l.Max.Seconds()}
	}
	sum := float64(l.Samples) * float64(l.Avg) / float64(time.Second)
	n.ch <- prometheus.MustNewConstSummary(niLatencyDesc, l.Samples, sum, quantiles, n.with(operation)...)
}

// driver shows the driver's counters under their own names; those that end in
// "_total" only grow.
func (n niMetrics) driver(ni *node.NIInfo) {
	for _, c := range ni.Driver {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(c.Name, "_total") {
			kind = prometheus.CounterValue
		}
		d := prometheus.NewDesc("lnet_lnd_"+c.Name, "Counter of the network driver.",
			append(append([]string(nil), niLabels...), "lnd"), nil)
		n.ch <- prometheus.MustNewConstMetric(d, kind, float64(c.Value), n.with(ni.Net.Type().String())...)
	}
}
