package metrics

import (
	"strconv"

	"github.com/lnetd/lnetd/internal/lnetd/proxies"
	"github.com/lnetd/lnetd/lnet"
)

// proxyLabels holds the names of the labels that all metrics of proxies have. A proxy that attaches again has
// another pid.
var proxyLabels = []string{"net", "nid", "proxy", "pid"}

// ofProxy returns proxyLabels followed by more label names.
func ofProxy(more ...string) []string { return append(append([]string(nil), proxyLabels...), more...) }

var (
	proxyUp       = gaugeFamily("lnet_proxy_up", "1 if the proxy can carry traffic, otherwise 0.", ofProxy()...)
	proxyMessages = counterFamily("lnet_proxy_messages_total", "Messages that the proxy has sent or received, by direction.", ofProxy("direction")...)
	proxyBytes    = counterFamily("lnet_proxy_payload_bytes_total", "Payload of the messages of the proxy, by direction.", ofProxy("direction")...)
	proxyFailures = counterFamily("lnet_proxy_failed_messages_total", "Messages that the proxy could not send.", ofProxy()...)
	proxyHas      = gaugeFamily("lnet_proxy_messages",
		"Messages in progress: to be sent by the proxy (send), waiting in lnetd for room (wait), received and not over (receive).", ofProxy("state")...)
)

// collectProxies adds the metrics of the proxies to the page.
func collectProxies(p *page, list []proxies.Status) {
	list = perProcess(list)
	for k := range list {
		s := &list[k]
		labels := []string{s.Net.String(), s.NID.String(), s.Name, strconv.Itoa(int(s.PID))}
		of := func(more string) []string { return append(labels[:len(labels):len(labels)], more) }
		p.set(proxyUp, bit(s.Up), labels...)
		p.count(proxyMessages, s.Sent, of("sent")...)
		p.count(proxyMessages, s.Received, of("received")...)
		p.count(proxyBytes, s.SentBytes, of("sent")...)
		p.count(proxyBytes, s.ReceivedBytes, of("received")...)
		p.count(proxyFailures, s.Failed, labels...)
		p.set(proxyHas, float64(s.Sends), of("send")...)
		p.set(proxyHas, float64(s.Waiting), of("wait")...)
		p.set(proxyHas, float64(s.Arrivals), of("receive")...)
	}
}

// perProcess returns the sums of proxies that have the same labels: several connections of a process to one NI. The
// sum can carry traffic if one of them can.
func perProcess(list []proxies.Status) (sums []proxies.Status) {
	type key struct {
		nid  lnet.NID
		name string
		pid  int32
	}
	at := make(map[key]int, len(list))
	for k := range list {
		s := &list[k]
		sum, found := at[key{s.NID, s.Name, s.PID}]
		if !found {
			at[key{s.NID, s.Name, s.PID}] = len(sums)
			sums = append(sums, *s)
			continue
		}
		to := &sums[sum]
		to.Up = to.Up || s.Up
		to.Sends, to.Waiting, to.Arrivals = to.Sends+s.Sends, to.Waiting+s.Waiting, to.Arrivals+s.Arrivals
		to.Sent, to.SentBytes, to.Failed = to.Sent+s.Sent, to.SentBytes+s.SentBytes, to.Failed+s.Failed
		to.Received, to.ReceivedBytes = to.Received+s.Received, to.ReceivedBytes+s.ReceivedBytes
	}
	return sums
}
