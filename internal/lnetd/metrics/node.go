package metrics

import (
	"context"

	"github.com/lnetd/lnetd/node"
)

var (
	committed        = gaugeFamily("lnet_messages_committed", "Messages in progress.")
	committedMax     = gaugeFamily("lnet_messages_committed_max", "Maximum number of messages in progress at the same time.")
	trackers         = gaugeFamily("lnet_response_trackers", "Requests that wait for a response.")
	messages         = counterFamily("lnet_messages_total", "Messages of the node: sent, received, routed, dropped.", "direction")
	payloadBytes     = counterFamily("lnet_payload_bytes_total", "Payload of the node's messages: sent, received, routed, dropped.", "direction")
	failures         = counterFamily("lnet_failures_total", "Messages that failed, by health class.", "class")
	resends          = counterFamily("lnet_resends_total", "Messages that were sent again: all of them, and those that succeeded or failed.", "outcome")
	drops            = counterFamily("lnet_dropped_messages_total", "Messages that were dropped, by reason.", "reason")
	responseTimeouts = counterFamily("lnet_response_timeouts_total", "Requests that got no response in time.")

	waitingMessages = gaugeFamily("lnet_waiting_messages", "Messages that wait, by what they wait for.", "queue")
	recoveringNIDs  = gaugeFamily("lnet_recovering_nids", "Unhealthy NIDs that are pinged until they recover: those of NIs, those of peers.", "of")
	recoveryPings   = counterFamily("lnet_recovery_pings_total", "Pings of unhealthy NIDs: those of NIs, those of peers.", "of")

	discoveryQueue     = gaugeFamily("lnet_discovery_queue", "Peers in the queue of discovery.")
	discoveryExchanges = gaugeFamily("lnet_discovery_exchanges", "Pings and pushes of discovery in progress.", "exchange")
	discoverySent      = counterFamily("lnet_discovery_sent_total", "Pings and pushes that discovery has sent.", "exchange")
	discoveryFailures  = counterFamily("lnet_discovery_failures_total", "Pings and pushes of discovery without a valid answer.", "exchange")
	discoveryRounds    = counterFamily("lnet_discovery_rounds_total", "Completed rounds of discovery, by result.", "result")
	discoveryReceived  = counterFamily("lnet_discovery_pushes_received_total", "Pushes received from peers.")
)

func collectNode(p *page, k *node.Counters, d node.DropCounts) {
	p.count(committed, k.Committed)
	p.count(committedMax, k.CommittedMax)
	p.count(trackers, k.Trackers)
	p.count(messages, k.Sent, "sent")
	p.count(messages, k.Received, "received")
	p.count(messages, k.Routed, "routed")
	p.count(messages, k.Dropped, "dropped")
	p.count(payloadBytes, k.SentBytes, "sent")
	p.count(payloadBytes, k.ReceivedBytes, "received")
	p.count(payloadBytes, k.RoutedBytes, "routed")
	p.count(payloadBytes, k.DroppedBytes, "dropped")
	p.count(failures, k.LocalInterrupts, "local_interrupt")
	p.count(failures, k.LocalDropped, "local_dropped")
	p.count(failures, k.LocalAborted, "local_aborted")
	p.count(failures, k.LocalNoRoute, "local_no_route")
	p.count(failures, k.LocalTimeouts, "local_timeout")
	p.count(failures, k.LocalErrors, "local_error")
	p.count(failures, k.RemoteDropped, "remote_dropped")
	p.count(failures, k.RemoteErrors, "remote_error")
	p.count(failures, k.RemoteTimeouts, "remote_timeout")
	p.count(failures, k.NetworkTimeouts, "network_timeout")
	p.count(resends, k.Resent, "all")
	p.count(resends, k.SuccessfulResends, "succeeded")
	p.count(resends, k.FailedResends, "failed")
	p.count(responseTimeouts, k.ResponseTimeouts)
	for r, n := range d {
		p.count(drops, n, node.DropReason(r).String())
	}
}

// waiting counts messages that wait, by what they wait for. It is filled while the metrics of NIs, peers and
// other parts are collected, and then added to the page.
type waiting struct {
	niCredits, peerCredits, routerCredits, routerBuffers int
	discovery, resend                                    int
}

// waitFor returns the number of messages that wait for a credit of c.
func waitFor(c node.CreditInfo) int { return max(0, -c.Available) }

func (w *waiting) collect(p *page) {
	p.set(waitingMessages, float64(w.niCredits), "ni_credits")
	p.set(waitingMessages, float64(w.peerCredits), "peer_credits")
	p.set(waitingMessages, float64(w.routerCredits), "router_credits")
	p.set(waitingMessages, float64(w.routerBuffers), "router_buffers")
	p.set(waitingMessages, float64(w.discovery), "discovery")
	p.set(waitingMessages, float64(w.resend), "resend")
}

// collectActivity adds metrics of recovery and discovery to the page, and messages that wait for discovery or
// a resend to w. It returns false if discovery did not answer, so that its metrics are missing.
func collectActivity(ctx context.Context, p *page, s Source, w *waiting) bool {
	a, err := s.Activity(ctx)
	w.discovery, w.resend = a.Parked, a.Resends
	p.set(recoveringNIDs, float64(a.RecoveringNIs), "ni")
	p.set(recoveringNIDs, float64(a.RecoveringPeerNIs), "peer_ni")
	p.count(recoveryPings, a.NIPings, "ni")
	p.count(recoveryPings, a.PeerNIPings, "peer_ni")
	if err != nil {
		return false
	}
	d := &a.Discovery
	p.set(discoveryQueue, float64(d.Queue))
	p.set(discoveryExchanges, float64(d.Pings), "ping")
	p.set(discoveryExchanges, float64(d.Pushes), "push")
	p.count(discoverySent, d.PingsSent, "ping")
	p.count(discoverySent, d.PushesSent, "push")
	p.count(discoveryFailures, d.PingsFailed, "ping")
	p.count(discoveryFailures, d.PushesFailed, "push")
	p.count(discoveryRounds, d.Rounds-d.RoundsFailed, "succeeded")
	p.count(discoveryRounds, d.RoundsFailed, "failed")
	p.count(discoveryReceived, d.PushesReceived)
	return true
}
