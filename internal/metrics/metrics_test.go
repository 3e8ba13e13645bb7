package metrics

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

type fakeSource struct {
	counters node.Counters
	nis      []node.NIInfo
}

func (s *fakeSource) Counters() node.Counters { return s.counters }
func (s *fakeSource) NIs() []node.NIInfo      { return s.nis }

func scrape(t *testing.T, s Source) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(s, "v1.2.3").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	tcp1 := lnet.MakeNet(lnet.TypeTCP, 1)
	nid, err := lnet.ParseNID("10.0.0.1@tcp1")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeSource{
		counters: node.Counters{
			Committed: 3, CommittedMax: 9, Trackers: 2, Sent: 100, Received: 90, Dropped: 1, SentBytes: 1 << 40,
			RemoteDropped: 7, Resent: 5, ResponseTimeouts: 4,
		},
		nis: []node.NIInfo{
			{NID: lnet.LoopbackNID, Net: lnet.MakeNet(lnet.TypeLO, 0), Status: lnet.StatusUp},
			{
				NID: nid, Net: tcp1, Device: "eth0", Status: lnet.StatusDown,
				Traffic: node.Traffic{
					Sent:   node.MessageCounts{Put: 11, Get: 12},
					GetRTT: node.Latency{Samples: 4, Min: time.Millisecond, Max: time.Second, Avg: 250 * time.Millisecond},
				},
				Health:  node.Health{Value: 900, HealthCounters: node.HealthCounters{Timeouts: 6}},
				Credits: node.CreditInfo{Max: 256, Available: -2, Min: -5},
				Driver:  []lnd.Counter{{Name: "peers", Value: 8}, {Name: "peers_down_total", Value: 13}},
			},
		},
	}
	got := scrape(t, s)
	const ni = `device="eth0",`
	for _, want := range []string{
		`lnet_messages_committed 3`,
		`lnet_messages_committed_max 9`,
		`lnet_response_trackers 2`,
		`lnet_messages_total{direction="sent"} 100`,
		`lnet_messages_total{direction="dropped"} 1`,
		`lnet_payload_bytes_total{direction="sent"} 1.099511627776e+12`,
		`lnet_failures_total{class="remote_dropped"} 7`,
		`lnet_resends_total{outcome="all"} 5`,
		`lnet_response_timeouts_total 4`,
		`lnet_ni_up{device="",net="lo",nid="0@lo"} 1`,
		`lnet_ni_up{` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 0`,
		`lnet_ni_health{` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 900`,
		`lnet_ni_messages_total{` + ni + `direction="sent",net="tcp1",nid="10.0.0.1@tcp1",type="get"} 12`,
		`lnet_ni_failures_total{class="local_timeout",` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 6`,
		`lnet_ni_credits{` + ni + `kind="available",net="tcp1",nid="10.0.0.1@tcp1"} -2`,
		`lnet_ni_latency_seconds_sum{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt"} 1`,
		`lnet_ni_latency_seconds_count{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt"} 4`,
		`lnet_ni_latency_seconds{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt",quantile="1"} 1`,
		`# TYPE lnet_lnd_peers gauge`,
		`lnet_lnd_peers{` + ni + `lnd="tcp",net="tcp1",nid="10.0.0.1@tcp1"} 8`,
		`# TYPE lnet_lnd_peers_down_total counter`,
		`lnet_lnd_peers_down_total{` + ni + `lnd="tcp",net="tcp1",nid="10.0.0.1@tcp1"} 13`,
		`lnetd_build_info{version="v1.2.3"} 1`,
		`go_goroutines `,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(got, `lnet_ni_credits{device="",`) {
		t.Error("0@lo has credits")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// Every scrape reads the counters anew.
func TestMetricsAreRead(t *testing.T) {
	s := &fakeSource{}
	h := Handler(s, "v")
	for _, want := range []string{"lnet_response_timeouts_total 1\n", "lnet_response_timeouts_total 2\n"} {
		s.counters.ResponseTimeouts++
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, Handler(&fakeSource{}, "v"), slog.New(slog.DiscardHandler))
	}()
	resp, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
