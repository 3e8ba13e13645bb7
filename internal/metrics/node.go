package metrics

import (
	"context"

	"github.com/lnetd/lnetd/node"
)

var (
	committed        = gaugeFamily("lnet_messages_committed", "Messages under way.")
	committedMax     = gaugeFamily("lnet_messages_committed_max", "Most messages that were under way at once.")
	trackers         = gaugeFamily("lnet_response_trackers", "Requests whose response is awaited.")
	messages         = counterFamily("lnet_messages_total", "Messages by what became of them.", "direction")
	payloadBytes     = counterFamily("lnet_payload_bytes_total", "Payload by what became of its message.", "direction")
	failures         = counterFamily("lnet_failures_total", "Messages that failed, by health class.", "class")
	resends          = counterFamily("lnet_resends_total", "Messages sent again, by outcome: all of them, succeeded, failed.", "outcome")
	drops            = counterFamily("lnet_dropped_messages_total", "Messages that were dropped, by reason.", "reason")
	responseTimeouts = counterFamily("lnet_response_timeouts_total", "Requests whose response did not come in time.")

	waitingMessages = gaugeFamily("lnet_waiting_messages", "Messages that wait, by what for.", "queue")
	recoveringNIDs  = gaugeFamily("lnet_recovering_nids", "NIDs that are pinged until they are well: those of NIs, of peers.", "of")
	recoveryPings   = counterFamily("lnet_recovery_pings_total", "Pings of NIDs that are not well: those of NIs, of peers.", "of")

	discoveryQueue     = gaugeFamily("lnet_discovery_queue", "Peers that wait for discovery to go on with them.")
	discoveryExchanges = gaugeFamily("lnet_discovery_exchanges", "Pings and pushes of discovery under way.", "exchange")
	discoverySent      = counterFamily("lnet_discovery_sent_total", "Pings and pushes of discovery.", "exchange")
	discoveryFailures  = counterFamily("lnet_discovery_failures_total", "Pings and pushes of discovery that were not answered, or in a way that is of no use.", "exchange")
	discoveryRounds    = counterFamily("lnet_discovery_rounds_total", "Rounds of discovery that have ended, by result.", "result")
	discoveryReceived  = counterFamily("lnet_discovery_pushes_received_total", "Pushes that came from peers.")
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

// waiting counts waiting messages while NIs and peers are collected.
type waiting struct {
	niCredits, peerCredits, routerCredits, routerBuffers int
	discovery, resend                                    int
}

// waitFor returns the number of messages that wait for the credits.
func waitFor(c node.CreditInfo) int { return max(0, -c.Available) }

func (w *waiting) collect(p *page) {
	p.set(waitingMessages, float64(w.niCredits), "ni_credits")
	p.set(waitingMessages, float64(w.peerCredits), "peer_credits")
	p.set(waitingMessages, float64(w.routerCredits), "router_credits")
	p.set(waitingMessages, float64(w.routerBuffers), "router_buffers")
	p.set(waitingMessages, float64(w.discovery), "discovery")
	p.set(waitingMessages, float64(w.resend), "resend")
}

// collectActivity adds the activity of the node's components. It returns false if discovery did not
// answer.
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
