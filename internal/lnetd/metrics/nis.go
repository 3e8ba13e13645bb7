package metrics

import (
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// niLabels holds the names of the labels that all metrics of NIs have.
var niLabels = []string{"net", "nid", "device"}

// ofNI returns niLabels followed by more label names.
func ofNI(more ...string) []string { return append(append([]string(nil), niLabels...), more...) }

var (
	niUp          = gaugeFamily("lnet_ni_up", "1 if the status of the NI is up, otherwise 0.", ofNI()...)
	niLinkUp      = gaugeFamily("lnet_ni_link_up", "0 if the link of the NI is known to be down, otherwise 1.", ofNI()...)
	niHealth      = gaugeFamily("lnet_ni_health", "Health of the NI, 0 to 1000.", ofNI()...)
	niMessages    = counterFamily("lnet_ni_messages_total", "Messages of the NI, by direction and type.", ofNI("direction", "type")...)
	niBytes       = counterFamily("lnet_ni_payload_bytes_total", "Payload of the NI, by direction and type of message.", ofNI("direction", "type")...)
	niFailures    = counterFamily("lnet_ni_failures_total", "Messages that failed on the NI, by health class.", ofNI("class")...)
	niRefusals    = counterFamily("lnet_ni_refused_callers_total", "Connection requests of peers that were refused, by reason.", ofNI("reason")...)
	niFailedCalls = counterFamily("lnet_ni_failed_calls_total", "Attempts to connect to a peer that failed, by reason.", ofNI("reason")...)
	niLatency     = histogramFamily("lnet_ni_latency_seconds", "Time to send a PUT, and time until requests were answered, by operation.", ofNI("operation")...)
	niLongest     = gaugeFamily("lnet_ni_latency_max_seconds", "Maximum of lnet_ni_latency_seconds since lnetd started or the counters were reset.", ofNI("operation")...)
	niCredits     = gaugeFamily("lnet_ni_credits", "Credits of the NI: max, available (negative if messages wait), min (lowest so far).", ofNI("kind")...)
	niTimeout     = gaugeFamily("lnet_ni_lnd_timeout_seconds", "LND timeout in force.", ofNI()...)

	rdmaPortStatistic = gaugeFamily("lnet_rdma_port_statistic", "Counters of the kernel and the device for a port of an RDMA device, with their names there.",
		"rdma_device", "port", "statistic")

	interfacesWaiting = gaugeFamily("lnet_interfaces_waiting", "Configured NIs that wait for a usable network interface.")
	interfaceWaiting  = gaugeFamily("lnet_interface_waiting", "1 for each NI that waits for a usable network interface.", "net", "ni")
)

// driverFamilies holds the families of the drivers' counters by the counter's name. They are created when a
// counter is first seen. If several drivers have a counter of the same name, the family has the help text of
// the first one.
type driverFamilies struct {
	mu     sync.Mutex // guards byName
	byName map[string]*family
}

func (d *driverFamilies) of(c *lnd.Counter) *family {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.byName[c.Name]
	if f == nil {
		kind := dto.MetricType_GAUGE
		if strings.HasSuffix(c.Name, "_total") {
			kind = dto.MetricType_COUNTER
		}
		f = newFamily(kind, "lnet_lnd_"+c.Name, c.Help, ofNI("lnd"))
		if d.byName == nil {
			d.byName = map[string]*family{}
		}
		d.byName[c.Name] = f
	}
	return f
}

// collectNI adds the metrics of one NI to the page, and its waiting messages to w.
func collectNI(p *page, ni *node.NIInfo, w *waiting, drivers *driverFamilies) {
	net, nid, device := ni.Net.String(), ni.NID.String(), ni.Device
	set := func(f *family, v float64, more ...string) {
		p.set(f, v, append([]string{net, nid, device}, more...)...)
	}
	count := func(f *family, v uint64, more ...string) { set(f, float64(v), more...) }
	set(niUp, bit(ni.Status == lnet.StatusUp))
	set(niLinkUp, bit(!ni.Health.Fatal))
	set(niHealth, float64(ni.Health.Value))
	byType := func(f *family, direction string, c *node.MessageCounts) {
		count(f, c.Put, direction, "put")
		count(f, c.Get, direction, "get")
		count(f, c.Reply, direction, "reply")
		count(f, c.Ack, direction, "ack")
		count(f, c.Hello, direction, "hello")
	}
	byType(niMessages, "sent", &ni.Detail.Sent)
	byType(niMessages, "received", &ni.Traffic.Received)
	byType(niMessages, "dropped", &ni.Traffic.Dropped)
	payload := func(direction string, c *node.MessageCounts) { // only PUT and REPLY carry payload
		count(niBytes, c.Put, direction, "put")
		count(niBytes, c.Reply, direction, "reply")
	}
	payload("sent", &ni.Detail.SentBytes)
	payload("received", &ni.Detail.ReceivedBytes)
	payload("dropped", &ni.Detail.DroppedBytes)
	count(niFailures, ni.Health.Interrupts, "local_interrupt")
	count(niFailures, ni.Health.Dropped, "local_dropped")
	count(niFailures, ni.Health.Aborted, "local_aborted")
	count(niFailures, ni.Health.NoRoute, "local_no_route")
	count(niFailures, ni.Health.Timeouts, "local_timeout")
	count(niFailures, ni.Health.Errors, "local_error")
	latency := func(operation string, h *node.LatencyHistogram) {
		p.put(niLatency, latencyMetric(h, niLatency.pairs([]string{net, nid, device, operation})))
		set(niLongest, h.Max.Seconds(), operation)
	}
	latency("put_egress", &ni.Detail.PutEgress)
	latency("get_rtt", &ni.Detail.GetRTT)
	latency("put_ack", &ni.Detail.PutAck)
	if ni.NID.IsLoopback() {
		return // 0@lo has no credits and no driver
	}
	w.niCredits += waitFor(ni.Credits)
	set(niCredits, float64(ni.Credits.Max), "max")
	set(niCredits, float64(ni.Credits.Available), "available")
	set(niCredits, float64(ni.Credits.Min), "min")
	set(niTimeout, ni.LNDTimeout.Seconds())
	for r, n := range ni.Refusals {
		count(niRefusals, n, lnd.Refusal(r).String())
	}
	if ni.CallFailures != nil {
		for r, n := range ni.CallFailures {
			count(niFailedCalls, n, lnd.CallFailure(r).String())
		}
	}
	for k := range ni.Driver {
		count(drivers.of(&ni.Driver[k]), ni.Driver[k].Value, ni.Net.Type().String())
	}
}

func collectWaitingNIs(p *page, list []WaitingNI) {
	p.set(interfacesWaiting, float64(len(list)))
	seen := map[WaitingNI]bool{} // two NIs may have the same name
	for _, w := range list {
		if !seen[w] {
			seen[w] = true
			p.set(interfaceWaiting, 1, w.Net.String(), w.NI)
		}
	}
}

func collectRDMAPorts(p *page, list []hostnet.RDMAPort) {
	for _, port := range list {
		for name, v := range port.Counters {
			p.set(rdmaPortStatistic, float64(v), port.Device, port.Port, name)
		}
	}
}
