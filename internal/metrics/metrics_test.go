package metrics

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/clients"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

type fakeSource struct {
	counters node.Counters
	drops    node.DropCounts
	nis      []node.NIInfo
	peers    []node.PeerInfo
	peerNIs  node.PeerNIsInfo
	routes   []node.RouteInfo
	routing  node.RoutingInfo
	clients  []clients.Total
}

func (s *fakeSource) Counters() node.Counters   { return s.counters }
func (s *fakeSource) Drops() node.DropCounts    { return s.drops }
func (s *fakeSource) WaitingNIs() int           { return 3 }
func (s *fakeSource) NIs() []node.NIInfo        { return s.nis }
func (s *fakeSource) PeerNIs() node.PeerNIsInfo { return s.peerNIs }
func (s *fakeSource) PeersAfter(context.Context, discovery.PeerID) iter.Seq2[node.PeerInfo, error] {
	return func(yield func(node.PeerInfo, error) bool) {
		for _, p := range s.peers {
			if !yield(p, nil) {
				return
			}
		}
	}
}
func (s *fakeSource) ClientTotals() []clients.Total { return s.clients }
func (s *fakeSource) Routes() []node.RouteInfo      { return s.routes }
func (s *fakeSource) Routing() node.RoutingInfo     { return s.routing }

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
		drops: node.DropCounts{node.DropNoMatch: 31, node.DropClosing: 1},
		nis: []node.NIInfo{
			{NID: lnet.LoopbackNID, Net: lnet.MakeNet(lnet.TypeLO, 0), Status: lnet.StatusUp},
			{
				NID: nid, Net: tcp1, Device: "eth0", Status: lnet.StatusDown,
				Traffic: node.Traffic{
					Sent:   node.MessageCounts{Put: 11, Get: 12},
					GetRTT: node.Latency{Samples: 4, Min: time.Millisecond, Max: time.Second, Avg: 250 * time.Millisecond},
				},
				Health:   node.Health{Value: 900, HealthCounters: node.HealthCounters{Timeouts: 6}},
				Credits:  node.CreditInfo{Max: 256, Available: -2, Min: -5},
				Refusals: lnd.RefusalCounts{lnd.RefusedMagic: 400},
				Driver:   []lnd.Counter{{Name: "peers", Value: 8}, {Name: "peers_down_total", Value: 13}},
			},
		},
	}
	got := scrape(t, s)
	const ni = `device="eth0",`
	contains(t, got, []string{
		`lnet_messages_committed 3`,
		`lnet_messages_committed_max 9`,
		`lnet_response_trackers 2`,
		`lnet_messages_total{direction="sent"} 100`,
		`lnet_messages_total{direction="dropped"} 1`,
		`lnet_payload_bytes_total{direction="sent"} 1.099511627776e+12`,
		`lnet_failures_total{class="remote_dropped"} 7`,
		`lnet_resends_total{outcome="all"} 5`,
		`lnet_response_timeouts_total 4`,
		`lnet_dropped_messages_total{reason="no_match"} 31`,
		`lnet_dropped_messages_total{reason="no_route"} 0`,
		`lnet_dropped_messages_total{reason="closing"} 1`,
		`lnet_ni_refused_callers_total{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",reason="bad_magic"} 400`,
		`lnet_ni_refused_callers_total{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",reason="closing"} 0`,
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
	})
	if strings.Contains(got, `lnet_ni_credits{device="",`) {
		t.Error("0@lo has credits")
	}
}

// contains looks for lines that begin like the wanted ones.
func contains(t *testing.T, got string, lines []string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("no line %s", want)
		}
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

// The port of the metrics has nothing else.
func TestNothingButMetrics(t *testing.T) {
	h := Handler(&fakeSource{}, "v")
	for _, path := range []string{"/", "/debug/pprof/", "/debug/pprof/heap", "/metrics/x"} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestPeerMetrics(t *testing.T) {
	ni := func(n uint16, health int) node.PeerNIInfo {
		nid, err := lnet.ParseNID(fmt.Sprintf("10.0.%d.%d@tcp", n>>8, n&0xff))
		if err != nil {
			t.Fatal(err)
		}
		return node.PeerNIInfo{NID: nid, Health: node.Health{Value: health}}
	}
	s := &fakeSource{peerNIs: node.PeerNIsInfo{Count: 2000, Named: 3, Max: 65536, Forgotten: 4, Refused: 5}}
	for n := range uint16(peerNIsMax) {
		p := node.PeerInfo{NIs: []node.PeerNIInfo{ni(2*n+2, 1000), ni(2*n+3, 700)}}
		p.Primary = p.NIs[0].NID
		s.peers = append(s.peers, p)
	}
	s.peers[0].State = discovery.MultiRail | discovery.Configured
	s.peers[1].State = discovery.MultiRail | discovery.PingFailed
	s.peers[1].NIs[1].Health.Value = 0
	got := scrape(t, s)
	contains(t, got, []string{
		`lnet_peers 1000`,
		`lnet_peers_in_state{state="multi_rail"} 2`,
		`lnet_peers_in_state{state="configured"} 1`,
		`lnet_peers_in_state{state="ping_failed"} 1`,
		`lnet_peers_in_state{state="discovered"} 0`,
		`lnet_peer_nis{health="full"} 1000`,
		`lnet_peer_nis{health="reduced"} 999`,
		`lnet_peer_nis{health="none"} 1`,
		`lnet_peer_nis_max 65536`,
		`lnet_peer_nis_configured 3`,
		`lnet_peer_nis_forgotten_total 4`,
		`lnet_peer_nis_refused_total 5`,
		`lnet_peer_ni_health{nid="10.0.0.3@tcp",primary="10.0.0.2@tcp"} 700`,
		`lnet_peer_ni_health{nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 0`,
	})
	if n := strings.Count(got, "\nlnet_peer_ni_health{"); n != peerNIsMax {
		t.Errorf("%d series of peer NIs", n)
	}
}

func TestRouterMetrics(t *testing.T) {
	s := &fakeSource{
		counters: node.Counters{Routed: 12, RoutedBytes: 4096},
		routes:   []node.RouteInfo{{Up: true}, {}, {}},
	}
	got := scrape(t, s)
	contains(t, got, []string{
		`lnet_messages_total{direction="routed"} 12`,
		`lnet_payload_bytes_total{direction="routed"} 4096`,
		`lnet_routes{state="up"} 1`,
		`lnet_routes{state="down"} 2`,
		`lnet_routing_state 0`,
	})
	if strings.Contains(got, "lnet_router_buffers") {
		t.Error("a node that never was a router has buffers")
	}
	s.routing = node.RoutingInfo{State: node.RoutingStarting, Ever: true}
	s.routing.Pools[1] = node.PoolInfo{Pages: 1, Buffers: 8, Credits: -1, MinCredits: -4}
	contains(t, scrape(t, s), []string{
		`lnet_routing_state 3`,
		`lnet_router_buffers{kind="all",pool="small"} 8`,
		`lnet_router_buffers{kind="available",pool="small"} -1`,
		`lnet_router_buffers{kind="min",pool="small"} -4`,
		`lnet_router_buffers{kind="all",pool="large"} 0`,
	})
}
