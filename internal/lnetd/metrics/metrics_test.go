package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

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
				Traffic: node.Traffic{Sent: node.MessageCounts{Put: 99}, Received: node.MessageCounts{Ack: 14}},
				Detail: node.Detail{
					Sent: node.MessageCounts{Put: 11, Get: 12, Reply: 15}, SentBytes: node.MessageCounts{Reply: 1 << 20},
					ReceivedBytes: node.MessageCounts{Put: 17}, DroppedBytes: node.MessageCounts{Put: 18},
					GetRTT: latencies(time.Microsecond/2, time.Millisecond, time.Second),
				},
				Health:       node.Health{Value: 900, Fatal: true, HealthCounters: node.HealthCounters{Timeouts: 6}},
				Credits:      node.CreditInfo{Max: 256, Available: -2, Min: -5},
				LNDTimeout:   5500 * time.Millisecond,
				Refusals:     lnd.RefusalCounts{lnd.RefusedMagic: 400},
				CallFailures: &lnd.CallFailureCounts{lnd.CallTurnedAway: 19},
				Driver:       []lnd.Counter{{Name: "peers", Value: 8, Help: "Peers."}, {Name: "peers_down_total", Value: 13, Help: "Lost."}},
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
		`lnet_ni_link_up{device="",net="lo",nid="0@lo"} 1`,
		`lnet_ni_link_up{` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 0`,
		`lnet_ni_lnd_timeout_seconds{` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 5.5`,
		`lnet_ni_messages_total{` + ni + `direction="sent",net="tcp1",nid="10.0.0.1@tcp1",type="put"} 11`,
		`lnet_ni_messages_total{` + ni + `direction="sent",net="tcp1",nid="10.0.0.1@tcp1",type="get"} 12`,
		`lnet_ni_messages_total{` + ni + `direction="sent",net="tcp1",nid="10.0.0.1@tcp1",type="reply"} 15`,
		`lnet_ni_messages_total{` + ni + `direction="received",net="tcp1",nid="10.0.0.1@tcp1",type="ack"} 14`,
		`lnet_ni_payload_bytes_total{` + ni + `direction="sent",net="tcp1",nid="10.0.0.1@tcp1",type="reply"} 1.048576e+06`,
		`lnet_ni_payload_bytes_total{` + ni + `direction="received",net="tcp1",nid="10.0.0.1@tcp1",type="put"} 17`,
		`lnet_ni_payload_bytes_total{` + ni + `direction="dropped",net="tcp1",nid="10.0.0.1@tcp1",type="put"} 18`,
		`lnet_ni_failed_calls_total{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",reason="turned_away"} 19`,
		`lnet_ni_failed_calls_total{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",reason="refused"} 0`,
		`lnet_ni_failures_total{class="local_timeout",` + ni + `net="tcp1",nid="10.0.0.1@tcp1"} 6`,
		`lnet_ni_credits{` + ni + `kind="available",net="tcp1",nid="10.0.0.1@tcp1"} -2`,
		`lnet_ni_latency_seconds_sum{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt"} 1.0010005`,
		`lnet_ni_latency_seconds_count{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt"} 3`,
		`lnet_ni_latency_seconds_bucket{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt",le="0.00390625"} 2`,
		`lnet_ni_latency_max_seconds{` + ni + `net="tcp1",nid="10.0.0.1@tcp1",operation="get_rtt"} 1`,
		`lnet_waiting_messages{queue="ni_credits"} 2`,
		`# TYPE lnet_lnd_peers gauge`,
		`lnet_lnd_peers{` + ni + `lnd="tcp",net="tcp1",nid="10.0.0.1@tcp1"} 8`,
		`# TYPE lnet_lnd_peers_down_total counter`,
		`lnet_lnd_peers_down_total{` + ni + `lnd="tcp",net="tcp1",nid="10.0.0.1@tcp1"} 13`,
		`lnetd_build_info{goversion="` + runtime.Version() + `",revision="",version="v1.2.3"} 1`,
		`go_goroutines `,
	})
	if strings.Contains(got, `lnet_ni_credits{device="",`) {
		t.Error("0@lo has credits")
	}
}

// contains checks for lines that begin like the wanted ones.
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

// Every scrape reads the current counters.
func TestMetricsAreRead(t *testing.T) {
	s := &fakeSource{}
	h := Handler(s, Options{})
	for _, want := range []string{"lnet_response_timeouts_total 1\n", "lnet_response_timeouts_total 2\n"} {
		s.counters.ResponseTimeouts++
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

// The port of the metrics serves only metrics.
func TestNothingButMetrics(t *testing.T) {
	h := Handler(&fakeSource{}, Options{})
	for _, path := range []string{"/", "/debug/pprof/", "/debug/pprof/heap", "/metrics/x"} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// Other paths are answered by Options.Others without redirects, and /metrics only to GET and HEAD.
func TestOthers(t *testing.T) {
	h := Handler(&fakeSource{}, Options{Others: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })})
	for _, path := range []string{"/", "/readyz", "/metrics/x", "//", "/a/../metrics"} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Body.String() != path {
			t.Errorf("%s: %d, %q", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)); !strings.Contains(w.Body.String(), "lnet_messages_total") {
		t.Error("/metrics has no metrics")
	}
	for _, h := range []http.Handler{h, Handler(&fakeSource{}, Options{})} {
		for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodOptions: 405} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, "/metrics", nil))
			if w.Code != want || want == 405 && w.Header().Get("Allow") != "GET, HEAD" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s /metrics: %d, %v", method, w.Code, w.Header())
			}
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
	for n := range uint16(PeersMax + 10) {
		p := node.PeerInfo{NIs: []node.PeerNIInfo{ni(2*n+2, 1000), ni(2*n+3, 700)}}
		p.Primary = p.NIs[0].NID
		s.peers = append(s.peers, p)
	}
	s.peers[0].State = discovery.MultiRail | discovery.Configured
	s.peers[1].State = discovery.MultiRail | discovery.PingFailed
	second := &s.peers[1].NIs[1]
	second.Health = node.Health{HealthCounters: node.HealthCounters{RemoteDropped: 1, RemoteErrors: 2, RemoteTimeouts: 3, NetworkTimeouts: 4}}
	second.Aliveness, second.QueuedBytes = node.AliveDown, 4096
	second.Credits, second.RouterCredits = node.CreditInfo{Max: 8, Available: -3, Min: -7}, node.CreditInfo{Max: 8, Available: -4}
	second.Traffic = node.Traffic{Sent: node.MessageCounts{Put: 5, Get: 6}, Received: node.MessageCounts{Ack: 7}, Dropped: node.MessageCounts{Put: 8}}
	second.Traffic.GetRTT = node.Latency{Samples: 2, Sum: 3 * time.Millisecond}
	got := scrape(t, s)
	contains(t, got, []string{
		`lnet_peers 1010`,
		`lnet_peers_left_out 10`,
		`lnet_peer_nis_left_out 20`,
		`lnetd_collect_complete 1`,
		`lnet_peers_in_state{state="multi_rail"} 2`,
		`lnet_peers_in_state{state="configured"} 1`,
		`lnet_peers_in_state{state="ping_failed"} 1`,
		`lnet_peers_in_state{state="discovered"} 0`,
		`lnet_peer_nis{health="full"} 1010`,
		`lnet_peer_nis{health="reduced"} 1009`,
		`lnet_peer_nis{health="none"} 1`,
		`lnet_peer_nis_max 65536`,
		`lnet_peer_nis_configured 3`,
		`lnet_peer_nis_forgotten_total 4`,
		`lnet_peer_nis_refused_total 5`,
		`lnet_peer_ni_health{nid="10.0.0.3@tcp",primary="10.0.0.2@tcp"} 700`,
		`lnet_peer_ni_health{nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 0`,
		`lnet_peer_ni_up{nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 0`,
		`lnet_peer_ni_credits{kind="available",nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} -3`,
		`lnet_peer_ni_credits{kind="min",nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} -7`,
		`lnet_peer_ni_queued_bytes{nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 4096`,
		`lnet_peer_ni_messages_total{direction="sent",nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 11`,
		`lnet_peer_ni_latency_seconds_total{nid="10.0.0.5@tcp",operation="get_rtt",primary="10.0.0.4@tcp"} 0.003`,
		`lnet_peer_ni_latency_samples_total{nid="10.0.0.5@tcp",operation="get_rtt",primary="10.0.0.4@tcp"} 2`,
		`lnet_peer_ni_messages_total{direction="received",nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 7`,
		`lnet_peer_ni_messages_total{direction="dropped",nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 8`,
		`lnet_peer_ni_failures_total{nid="10.0.0.5@tcp",primary="10.0.0.4@tcp"} 10`,
		`lnet_waiting_messages{queue="peer_credits"} 3`,
		`lnet_waiting_messages{queue="router_credits"} 4`,
	})
	for name, want := range map[string]int{"health": 2 * PeersMax, "up": 1, "credits": 2, "messages_total": 3*2*PeersMax + 3, "latency_seconds_total": 1} {
		if n := strings.Count(got, "\nlnet_peer_ni_"+name+"{"); n != want {
			t.Errorf("%d series of peer NIs' %s, want %d", n, name, want)
		}
	}
}

// Given a peer with many NIDs, when it needs more room than there is, then it and newer peers have
// no series, whatever the order of scrapes.
func TestPeersWithManyNIDs(t *testing.T) {
	s := &fakeSource{}
	for n, nids := range []int{1, 2, 5, 1} {
		p := node.PeerInfo{}
		for k := range nids {
			p.NIs = append(p.NIs, node.PeerNIInfo{NID: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.AddrFrom4([4]byte{10, 0, byte(n), byte(k)}))})
		}
		p.Primary = p.NIs[0].NID
		s.peers = append(s.peers, p)
	}
	got := scrapeWith(t, s, Options{PeersMax: 3})
	contains(t, got, []string{
		`lnet_peers 4`, `lnet_peers_left_out 2`, `lnet_peer_nis_left_out 6`, `lnet_peer_nis{health="none"} 9`,
		`lnet_peer_ni_health{nid="10.0.1.1@tcp",primary="10.0.1.0@tcp"} 0`,
	})
	if n := strings.Count(got, "\nlnet_peer_ni_health{"); n != 3 {
		t.Errorf("%d series", n)
	}
}

// A peer with very many NIDs is left out, but no other peer because of it, even if it has more NIDs
// than there is room for.
func TestPeerWithVeryManyNIDs(t *testing.T) {
	const many = 1 << 15
	s := &fakeSource{}
	for n, nids := range []int{many, 129, 1, 128, 1} {
		p := node.PeerInfo{}
		for k := range nids {
			p.NIs = append(p.NIs, node.PeerNIInfo{NID: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.AddrFrom4([4]byte{10, byte(n), byte(k >> 8), byte(k)}))})
		}
		p.Primary = p.NIs[0].NID
		s.peers = append(s.peers, p)
	}
	got := scrape(t, s)
	contains(t, got, []string{`lnet_peers 5`, `lnet_peers_left_out 2`, fmt.Sprintf("lnet_peer_nis_left_out %d", many+129)})
	if n := strings.Count(got, "\nlnet_peer_ni_health{"); n != 130 {
		t.Errorf("%d series", n)
	}
}

// If there are thousands of routes, all routes to a net are shown or none. Otherwise a net would
// seem unreachable if its only working route had no series.
func TestManyRoutes(t *testing.T) {
	gateway := func(k int) lnet.NID {
		return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.AddrFrom4([4]byte{10, 0, byte(k >> 8), byte(k)}))
	}
	for _, c := range []struct{ nets, each, shown int }{
		{500, 2, 1000}, {334, 3, 999}, {1, 1500, 1000}, {2, 600, 600}, {5000, 1, 1000},
	} {
		s := &fakeSource{}
		for n := range c.nets {
			for k := range c.each {
				s.routes = append(s.routes, node.RouteInfo{Net: lnet.MakeNet(lnet.TypeTCP, uint16(n+1)), Gateway: gateway(k)})
			}
		}
		got := scrape(t, s)
		contains(t, got, []string{fmt.Sprintf("lnet_routes_left_out %d", c.nets*c.each-c.shown)})
		if n := strings.Count(got, "\nlnet_route_up{"); n != c.shown {
			t.Errorf("%d nets of %d routes: %d series, want %d", c.nets, c.each, n, c.shown)
		}
	}
}

// If discovery does not answer, the data that is known without it is shown, and the answer is
// marked as incomplete.
func TestDiscoveryDoesNotAnswer(t *testing.T) {
	s := &fakeSource{counters: node.Counters{Sent: 3}, activity: node.Activity{Resends: 2, NIPings: 5}, silent: true}
	got := scrape(t, s)
	contains(t, got, []string{
		`lnetd_collect_complete 0`, `lnet_messages_total{direction="sent"} 3`,
		`lnet_waiting_messages{queue="resend"} 2`, `lnet_recovery_pings_total{of="ni"} 5`, `lnet_peer_nis_max 0`,
	})
	for _, name := range []string{"lnet_peers ", "lnet_peers_in_state", "lnet_discovery_"} {
		if strings.Contains(got, "\n"+name) {
			t.Errorf("%s is shown", name)
		}
	}
}

// The activity of the node's parts is shown.
func TestActivity(t *testing.T) {
	s := &fakeSource{activity: node.Activity{
		Discovery: discovery.Figures{
			Queue: 1, Pings: 2, Pushes: 3, PingsSent: 4, PingsFailed: 5, PushesSent: 6, PushesFailed: 7, PushesReceived: 8,
			Rounds: 20, RoundsFailed: 9,
		},
		Parked: 10, Resends: 11, RecoveringNIs: 12, RecoveringPeerNIs: 13, NIPings: 14, PeerNIPings: 15,
	}}
	contains(t, scrape(t, s), []string{
		`lnet_discovery_queue 1`,
		`lnet_discovery_exchanges{exchange="ping"} 2`,
		`lnet_discovery_exchanges{exchange="push"} 3`,
		`lnet_discovery_sent_total{exchange="ping"} 4`,
		`lnet_discovery_failures_total{exchange="ping"} 5`,
		`lnet_discovery_sent_total{exchange="push"} 6`,
		`lnet_discovery_failures_total{exchange="push"} 7`,
		`lnet_discovery_pushes_received_total 8`,
		`lnet_discovery_rounds_total{result="succeeded"} 11`,
		`lnet_discovery_rounds_total{result="failed"} 9`,
		`lnet_waiting_messages{queue="discovery"} 10`,
		`lnet_waiting_messages{queue="resend"} 11`,
		`lnet_recovering_nids{of="ni"} 12`,
		`lnet_recovering_nids{of="peer_ni"} 13`,
		`lnet_recovery_pings_total{of="ni"} 14`,
		`lnet_recovery_pings_total{of="peer_ni"} 15`,
	})
}

func TestRouterMetrics(t *testing.T) {
	s := &fakeSource{
		counters: node.Counters{Routed: 12, RoutedBytes: 4096},
		routes: []node.RouteInfo{
			{Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.AddrFrom4([4]byte{10, 0, 0, 9})), Up: true},
			{Net: lnet.MakeNet(lnet.TypeTCP, 8)}, {Net: lnet.MakeNet(lnet.TypeTCP, 7)},
		},
	}
	got := scrape(t, s)
	contains(t, got, []string{
		`lnet_messages_total{direction="routed"} 12`,
		`lnet_payload_bytes_total{direction="routed"} 4096`,
		`lnet_routes{state="up"} 1`,
		`lnet_routes{state="down"} 2`,
		`lnet_route_up{gateway="10.0.0.9@tcp",net="tcp9"} 1`,
		`lnet_routes_left_out 0`,
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
		`lnet_router_waiting_messages{pool="small"} 1`,
		`lnet_waiting_messages{queue="router_buffers"} 1`,
		`lnet_router_buffers{kind="all",pool="large"} 0`,
	})
}

// A removed object of one scrape is not in the next one.
func TestScrapesAreNotMixed(t *testing.T) {
	s := everything(t)
	s.nis = s.nis[:1]
	h := Handler(s, Options{})
	scrape := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	const peer, route, driver = "\nlnet_peer_ni_health{", "\nlnet_route_up{", "\nlnet_lnd_peers{"
	before := scrape()
	s.peers, s.routes, s.nis[0].Driver = nil, nil, nil
	after := scrape()
	s.peers = everything(t).peers
	again := scrape()
	for _, line := range []string{peer, route, driver} {
		if !strings.Contains(before, line) || strings.Contains(after, line) || strings.Contains(again, line) != (line == peer) {
			t.Errorf("%q: %v, %v, %v", line, strings.Contains(before, line), strings.Contains(after, line), strings.Contains(again, line))
		}
	}
}

// The names of exporters of Lustre are present only if they are requested, with the values of other
// families.
func TestNamesOfLustre(t *testing.T) {
	nid := lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 0), netip.AddrFrom4([4]byte{10, 0, 0, 1}))
	s := &fakeSource{
		counters: node.Counters{
			Committed: 1, CommittedMax: 2, Sent: 3, Received: 4, Routed: 5, Dropped: 6, SentBytes: 7, ReceivedBytes: 8, RoutedBytes: 9, DroppedBytes: 10,
		},
		nis: []node.NIInfo{{NID: nid, Net: nid.Net(), Status: lnet.StatusUp, Health: node.Health{Value: 950, HealthCounters: node.HealthCounters{
			Interrupts: 11, Dropped: 12, Aborted: 13, NoRoute: 14, Timeouts: 15, Errors: 16,
		}}}},
	}
	if strings.Contains(scrape(t, s), "lustre_") {
		t.Error("they are there unasked")
	}
	const lnet, of = `{component="lnet",target="lnet"} `, `{component="lnet",nid="10.0.0.1@tcp",target="lnet"} `
	contains(t, scrapeWith(t, s, Options{LustreCompat: true}), []string{
		`lustre_allocated` + lnet + `1`,
		`lustre_maximum` + lnet + `2`,
		`lustre_errors_total` + lnet + `0`,
		`lustre_send_count_total` + lnet + `3`,
		`lustre_receive_count_total` + lnet + `4`,
		`lustre_route_count_total` + lnet + `5`,
		`lustre_drop_count_total` + lnet + `6`,
		`lustre_send_bytes_total` + lnet + `7`,
		`lustre_receive_bytes_total` + lnet + `8`,
		`lustre_route_bytes_total` + lnet + `9`,
		`lustre_drop_bytes_total` + lnet + `10`,
		`lustre_lnet_ni_up` + of + `1`,
		`lustre_lnet_ni_health` + of + `950`,
		`lustre_lnet_ni_health_interrupts_total` + of + `11`,
		`lustre_lnet_ni_health_dropped_total` + of + `12`,
		`lustre_lnet_ni_health_aborted_total` + of + `13`,
		`lustre_lnet_ni_health_no_route_total` + of + `14`,
		`lustre_lnet_ni_health_timeouts_total` + of + `15`,
		`lustre_lnet_ni_health_errors_total` + of + `16`,
	})
}

// The environment of lnetd is shown.
func TestHost(t *testing.T) {
	s := &fakeSource{
		waiting: []WaitingNI{
			{lnet.MakeNet(lnet.TypeTCP, 0), "tcp(eth0)"}, {lnet.MakeNet(lnet.TypeTCP, 0), "tcp(eth0)"}, {lnet.MakeNet(lnet.TypeTCP, 1), "tcp1(\xff)"},
		},
		selftest: Selftest{
			Enabled: true, Node: true, Servers: 1, Clients: 2, Units: 3, BRWErrors: 4, PingErrors: 5,
			RPCs: message.RPCCounters{Errors: 6, Sent: 7, Received: 8, Dropped: 9, Expired: 10, BulkGet: 11, BulkPut: 12},
		},
		config: Configuration{
			SHA256: "cafe", Loaded: time.UnixMilli(1500), Succeeded: 13, Partial: 14, Failed: 15, Last: time.UnixMilli(2500), LastFailed: true,
		},
	}
	contains(t, scrape(t, s), []string{
		`lnet_interfaces_waiting 3`,
		`lnet_interface_waiting{net="tcp",ni="tcp(eth0)"} 1`,
		`lnet_interface_waiting{net="tcp1",ni="tcp1(?)"} 1`,
		`lnet_selftest_enabled 1`,
		`lnet_selftest_sessions{role="node"} 1`,
		`lnet_selftest_sessions{role="console"} 0`,
		`lnet_selftest_tests{role="server"} 1`,
		`lnet_selftest_tests{role="client"} 2`,
		`lnet_selftest_active_units 3`,
		`lnet_selftest_errors{test="brw"} 4`,
		`lnet_selftest_errors{test="ping"} 5`,
		`lnet_selftest_rpcs_total{result="failed"} 6`,
		`lnet_selftest_rpcs_total{result="sent"} 7`,
		`lnet_selftest_rpcs_total{result="received"} 8`,
		`lnet_selftest_rpcs_total{result="dropped"} 9`,
		`lnet_selftest_rpcs_total{result="expired"} 10`,
		`lnet_selftest_bulk_bytes_total{direction="get"} 11`,
		`lnet_selftest_bulk_bytes_total{direction="put"} 12`,
		`lnetd_config_info{sha256="cafe"} 1`,
		`lnetd_config_load_timestamp_seconds 1.5`,
		`lnetd_config_reloads_total{result="succeeded"} 13`,
		`lnetd_config_reloads_total{result="restart_needed"} 14`,
		`lnetd_config_reloads_total{result="failed"} 15`,
		`lnetd_config_last_reload_successful 0`,
		`lnetd_config_last_reload_timestamp_seconds 2.5`,
		`lnetd_scrapes_refused_total 0`,
		`lnetd_collect_seconds `,
	})
}
