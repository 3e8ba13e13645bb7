package metrics

import (
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/transport"
)

// Clients are counted by rule, and those without a rule too.
func TestClients(t *testing.T) {
	one := clients.Total{Rule: "servers", Clients: 2, TMs: 3, Buffers: 4, Bytes: 1 << 20, CutOffs: 5, Requests: 6, Rejected: 7, Waits: 13, BellReads: 14, BellWrites: 15, Polls: 30, Found: 17}
	one.Queues[transport.MsgRecv] = clients.QueueFigures{Depth: 8, Completed: 9, Failed: 10, Bytes: 11, Added: 20, Cancelled: 4, MaxBytes: 7, InQueue: 1.5}
	got := scrape(t, &fakeSource{clients: []clients.Total{{CutOffs: 12}, one}})
	contains(t, got, []string{
		`lnet_clients{rule="servers"} 2`,
		`lnet_client_tms{rule="servers"} 3`,
		`lnet_client_buffers{rule="servers"} 4`,
		`lnet_client_memory_bytes{rule="servers"} 1.048576e+06`,
		`lnet_client_operations{queue="mRECV",rule="servers"} 8`,
		`lnet_client_operations_total{queue="mRECV",result="completed",rule="servers"} 9`,
		`lnet_client_operations_total{queue="mRECV",result="failed",rule="servers"} 10`,
		`lnet_client_operations_total{queue="aSEND",result="failed",rule="servers"} 0`,
		`lnet_client_bytes_total{queue="mRECV",rule="servers"} 11`,
		`lnet_client_added_operations_total{queue="mRECV",rule="servers"} 20`,
		`lnet_client_cancelled_operations_total{queue="mRECV",rule="servers"} 4`,
		`lnet_client_queue_seconds_total{queue="mRECV",rule="servers"} 1.5`,
		`lnet_client_max_bytes{queue="mRECV",rule="servers"} 7`,
		`lnet_client_requests_total{rule="servers"} 6`,
		`lnet_client_rejected_operations_total{rule="servers"} 7`,
		`lnet_client_waits_total{rule="servers"} 13`,
		`lnet_client_polls_total{result="found",rule="servers"} 17`,
		`lnet_client_polls_total{result="nothing",rule="servers"} 13`,
		`lnet_client_bells_total{rule="servers",woken="lnetd"} 14`,
		`lnet_client_bells_total{rule="servers",woken="client"} 15`,
		`lnet_client_cut_offs_total{rule="servers"} 5`,
		`lnet_client_cut_offs_total{rule="no rule"} 12`,
	})
}
