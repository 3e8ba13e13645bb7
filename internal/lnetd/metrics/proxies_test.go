package metrics

import (
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd/uplnd"
	"github.com/lnetd/lnetd/lnet"
)

// Each proxy has its own metrics.
func TestProxies(t *testing.T) {
	net := lnet.MakeNet(210, 1)
	s := uplnd.Status{
		Proxy: uplnd.Proxy{Name: "mpi", Net: net, NID: lnet.NIDFromNumber(net, 7), PID: 42}, Up: true,
		Sends: 1, Waiting: 2, Arrivals: 3, Sent: 4, Received: 5, SentBytes: 6, ReceivedBytes: 7, Failed: 8,
	}
	got := scrape(t, &fakeSource{proxies: []uplnd.Status{s}})
	const of = `net="<210:1>",nid="7@<210:1>",pid="42",proxy="mpi"`
	contains(t, got, []string{
		`lnet_proxy_up{` + of + `} 1`,
		`lnet_proxy_messages{` + of + `,state="send"} 1`,
		`lnet_proxy_messages{` + of + `,state="wait"} 2`,
		`lnet_proxy_messages{` + of + `,state="receive"} 3`,
		`lnet_proxy_messages_total{direction="sent",` + of + `} 4`,
		`lnet_proxy_messages_total{direction="received",` + of + `} 5`,
		`lnet_proxy_payload_bytes_total{direction="sent",` + of + `} 6`,
		`lnet_proxy_payload_bytes_total{direction="received",` + of + `} 7`,
		`lnet_proxy_failed_messages_total{` + of + `} 8`,
	})
}

// Several proxies of one process at an NI have the same labels, so their metrics are sums: a label set that occurs
// twice makes a scrape invalid.
func TestProxiesOfAProcess(t *testing.T) {
	net := lnet.MakeNet(210, 1)
	s := uplnd.Status{
		Proxy: uplnd.Proxy{Name: "mpi", Net: net, NID: lnet.NIDFromNumber(net, 7), PID: 42},
		Sends: 1, Waiting: 2, Arrivals: 3, Sent: 4, Received: 5, SentBytes: 6, ReceivedBytes: 7, Failed: 8,
	}
	up, other := s, s
	up.Up, other.PID = true, 43
	got := scrape(t, &fakeSource{proxies: []uplnd.Status{s, up, other}})
	const of = `net="<210:1>",nid="7@<210:1>",pid="42",proxy="mpi"`
	contains(t, got, []string{
		`lnet_proxy_up{` + of + `} 1`,
		`lnet_proxy_messages{` + of + `,state="send"} 2`,
		`lnet_proxy_messages{` + of + `,state="wait"} 4`,
		`lnet_proxy_messages{` + of + `,state="receive"} 6`,
		`lnet_proxy_messages_total{direction="sent",` + of + `} 8`,
		`lnet_proxy_messages_total{direction="received",` + of + `} 10`,
		`lnet_proxy_payload_bytes_total{direction="sent",` + of + `} 12`,
		`lnet_proxy_payload_bytes_total{direction="received",` + of + `} 14`,
		`lnet_proxy_failed_messages_total{` + of + `} 16`,
		`lnet_proxy_up{net="<210:1>",nid="7@<210:1>",pid="43",proxy="mpi"} 0`,
	})
	if n := strings.Count(got, "lnet_proxy_up{"); n != 2 {
		t.Errorf("%d values of lnet_proxy_up, want 2", n)
	}
}
