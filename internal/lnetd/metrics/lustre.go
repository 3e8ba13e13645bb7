package metrics

import (
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// lustreLabels holds the names of the labels that Lustre exporters add to all LNet metrics. The value of
// each is "lnet".
var lustreLabels = []string{"component", "target"}

const lustreValue = "lnet"

func ofLustreNI() []string { return append(append([]string(nil), lustreLabels...), "nid") }

// Families with the names that Lustre exporters use for LNet's counters, according to their documentation.
// Metrics about the console and the debug buffer are omitted, because only a kernel module has these.
var (
	lustreAllocated    = gaugeFamily("lustre_allocated", "As lnet_messages_committed.", lustreLabels...)
	lustreMaximum      = gaugeFamily("lustre_maximum", "As lnet_messages_committed_max.", lustreLabels...)
	lustreErrors       = counterFamily("lustre_errors_total", "Always 0, as in LNet.", lustreLabels...)
	lustreSent         = counterFamily("lustre_send_count_total", "As lnet_messages_total, sent.", lustreLabels...)
	lustreReceived     = counterFamily("lustre_receive_count_total", "As lnet_messages_total, received.", lustreLabels...)
	lustreRouted       = counterFamily("lustre_route_count_total", "As lnet_messages_total, routed.", lustreLabels...)
	lustreDropped      = counterFamily("lustre_drop_count_total", "As lnet_messages_total, dropped.", lustreLabels...)
	lustreSentBytes    = counterFamily("lustre_send_bytes_total", "As lnet_payload_bytes_total, sent.", lustreLabels...)
	lustreReceiveBytes = counterFamily("lustre_receive_bytes_total", "As lnet_payload_bytes_total, received.", lustreLabels...)
	lustreRoutedBytes  = counterFamily("lustre_route_bytes_total", "As lnet_payload_bytes_total, routed.", lustreLabels...)
	lustreDroppedBytes = counterFamily("lustre_drop_bytes_total", "As lnet_payload_bytes_total, dropped.", lustreLabels...)

	lustreUp         = gaugeFamily("lustre_lnet_ni_up", "As lnet_ni_up.", ofLustreNI()...)
	lustreHealth     = gaugeFamily("lustre_lnet_ni_health", "As lnet_ni_health.", ofLustreNI()...)
	lustreInterrupts = counterFamily("lustre_lnet_ni_health_interrupts_total", "As lnet_ni_failures_total, local_interrupt.", ofLustreNI()...)
	lustreHDropped   = counterFamily("lustre_lnet_ni_health_dropped_total", "As lnet_ni_failures_total, local_dropped.", ofLustreNI()...)
	lustreAborted    = counterFamily("lustre_lnet_ni_health_aborted_total", "As lnet_ni_failures_total, local_aborted.", ofLustreNI()...)
	lustreNoRoute    = counterFamily("lustre_lnet_ni_health_no_route_total", "As lnet_ni_failures_total, local_no_route.", ofLustreNI()...)
	lustreTimeouts   = counterFamily("lustre_lnet_ni_health_timeouts_total", "As lnet_ni_failures_total, local_timeout.", ofLustreNI()...)
	lustreHErrors    = counterFamily("lustre_lnet_ni_health_errors_total", "As lnet_ni_failures_total, local_error.", ofLustreNI()...)
)

// collectLustre adds metrics that other families have too, with the names that dashboards for Lustre use.
func collectLustre(p *page, k *node.Counters, nis []node.NIInfo) {
	count := func(f *family, v uint64) { p.count(f, v, lustreValue, lustreValue) }
	count(lustreAllocated, k.Committed)
	count(lustreMaximum, k.CommittedMax)
	count(lustreErrors, k.Errors)
	count(lustreSent, k.Sent)
	count(lustreReceived, k.Received)
	count(lustreRouted, k.Routed)
	count(lustreDropped, k.Dropped)
	count(lustreSentBytes, k.SentBytes)
	count(lustreReceiveBytes, k.ReceivedBytes)
	count(lustreRoutedBytes, k.RoutedBytes)
	count(lustreDroppedBytes, k.DroppedBytes)
	for i := range nis {
		ni := &nis[i]
		set := func(f *family, v float64) { p.set(f, v, lustreValue, lustreValue, ni.NID.String()) }
		h := &ni.Health
		set(lustreUp, bit(ni.Status == lnet.StatusUp))
		set(lustreHealth, float64(h.Value))
		set(lustreInterrupts, float64(h.Interrupts))
		set(lustreHDropped, float64(h.Dropped))
		set(lustreAborted, float64(h.Aborted))
		set(lustreNoRoute, float64(h.NoRoute))
		set(lustreTimeouts, float64(h.Timeouts))
		set(lustreHErrors, float64(h.Errors))
	}
}
