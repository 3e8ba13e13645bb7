package server_test

import (
	"context"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selection"
	"github.com/lnetd/lnetd/selftest/console"
)

// example is a request that docs/control.md shows with its reply.
type example struct {
	method, target string
	body           string // of the request; empty for none
}

// examples are sent to one daemon, in this order.
var examples = []example{
	{"GET", "/v1/version", ""},
	{"GET", "/v1/nets?net=tcp", ""},
	{"POST", "/v1/nets/health", `{"nid":"10.0.0.1@tcp","value":900}`},
	{"GET", "/v1/peers?nid=10.0.0.2@tcp", ""},
	{"GET", "/v1/peers?page=0&detail=0", ""},
	{"POST", "/v1/peers", `{"primary_nid":"10.0.0.4@tcp","nids":["10.0.1.4@tcp1"]}`},
	{"DELETE", "/v1/peers", `{"primary_nid":"10.0.0.4@tcp"}`},
	{"POST", "/v1/peers/health", `{"all":true,"value":1000}`},
	{"POST", "/v1/ping", `{"nids":["10.0.0.2@tcp","10.0.0.9@tcp"],"timeout":5}`},
	{"POST", "/v1/discover", `{"nids":["10.0.0.2@tcp"],"force":true}`},
	{"POST", "/v1/routes", `{"net":"o2ib","gateways":["10.0.0.7@tcp"],"hops":2}`},
	{"GET", "/v1/routes", ""},
	{"POST", "/v1/routes", `{"net":"o2ib","gateways":["10.0.0.7@tcp"]}`},
	{"DELETE", "/v1/routes", `{"net":"o2ib","gateways":["10.0.0.7@tcp"]}`},
	{"GET", "/v1/routing", ""},
	{"POST", "/v1/routing", `{"enabled":true}`},
	{"GET", "/v1/log", ""},
	{"POST", "/v1/log", `{"level":"debug"}`},
	{"GET", "/v1/globals", ""},
	{"POST", "/v1/globals", `{"retry_count":2}`},
	{"POST", "/v1/udsp", `{"src":"tcp","priority":1}`},
	{"POST", "/v1/udsp", `{"dst":"10.0.0.[2-8/2]@tcp","src":"tcp1","idx":0}`},
	{"GET", "/v1/udsp", ""},
	{"DELETE", "/v1/udsp", `{"idx":0}`},
	{"POST", "/v1/selection", `{"type":"peer","local":"10.0.0.1@tcp","remote":"*@tcp","priority":1}`},
	{"GET", "/v1/selection?type=peer", ""},
	{"DELETE", "/v1/selection", `{"type":"peer","id":0}`},
	{"GET", "/v1/explain?nid=10.0.0.2@tcp", ""},
	{"POST", "/v1/faults", `{"kind":"drop","source":"*@tcp","dest":"*","rate":10,"messages":["put"]}`},
	{"GET", "/v1/faults?kind=drop", ""},
	{"POST", "/v1/faults/reset", `{}`},
	{"DELETE", "/v1/faults", `{"kind":"drop","all":true}`},
	{"POST", "/v1/nets", `{"net":"tcp1","interfaces":["eth1"],"peer_credits":16,"lnd_tunables":{"conns_per_peer":2}}`},
	{"POST", "/v1/nets/tunables", `{"all":true,"conns_per_peer":4}`},
	{"DELETE", "/v1/nets", `{"net":"tcp1"}`},
	{"DELETE", "/v1/nets", `{"net":"tcp1"}`},
	{"GET", "/v1/configuration", ""},
	{"POST", "/v1/configuration", `{"name":"site.yaml","text":"global: {retry_count: 2}","mode":"add","dry":true}`},
	{"POST", "/v1/configuration", `{"name":"site.yaml","text":"gobal: {}","mode":"add"}`},
	{"POST", "/v1/configuration/show", `{"name":"-","text":"route: [{net: o2ib, gateway: 10.0.0.7@tcp}]"}`},
	{"POST", "/v1/configuration/errands", `{"name":"-","text":"ping: {nids: [10.0.0.2@tcp]}"}`},
	{"POST", "/v1/peers/state", `{"nid":"10.0.0.2@tcp","state":273}`},
	{"GET", "/v1/recovery", ""},
	{"GET", "/v1/numa", ""},
	{"GET", "/v1/cpts?nids=10.0.0.[2-3]@tcp", ""},
	{"POST", "/v1/lnet", `{"configured":false}`},
	{"GET", "/v1/nets", ""},
	{"POST", "/v1/lnet", `{"configured":true,"all":true}`},
	{"GET", "/v1/stats", ""},
	{"POST", "/v1/stats/reset", `{}`},
	{"GET", "/v1/events?kind=ni", ""},
	{"GET", "/v1/capture?type=put,get&count=100", ""},
	{"GET", "/v1/clients", ""},
	{"DELETE", "/v1/clients", `{"id":7}`},
	{"DELETE", "/v1/clients", `{"id":7}`},
	{"GET", "/v1/lst", ""},
	{"POST", "/v1/lst/enable", `{"memory":67108864}`},
	{"POST", "/v1/lst/new_session", `{"key":7,"name":"night","timeout":300}`},
	{"POST", "/v1/lst/show_session", `{}`},
	{"POST", "/v1/lst/add_group", `{"key":7,"name":"all","ids":["10.0.0.1@tcp"]}`},
	{"POST", "/v1/lst/list_groups", `{"key":7}`},
	{"POST", "/v1/lst/list_group", `{"key":7,"name":"all"}`},
	{"POST", "/v1/lst/update_group", `{"key":7,"name":"all","refresh":true}`},
	{"POST", "/v1/lst/ping", `{"key":7,"target":{"group":"all"}}`},
	{"POST", "/v1/lst/add_batch", `{"key":7,"name":"b"}`},
	{
		"POST", "/v1/lst/add_test",
		`{"key":7,"batch":"b","from":"all","to":"all","kind":"ping","loop":10,"concurrency":1,"distribute":1,"span":1}`,
	},
	{"POST", "/v1/lst/list_batches", `{"key":7}`},
	{"POST", "/v1/lst/list_batch", `{"key":7,"name":"b"}`},
	{"POST", "/v1/lst/stat", `{"key":7,"targets":["all"]}`},
	{"POST", "/v1/lst/run", `{"key":7,"batch":"b"}`},
	{"POST", "/v1/lst/query", `{"key":7,"batch":"b","test":1}`},
	{"POST", "/v1/lst/stop", `{"key":7,"batch":"b"}`},
	{"POST", "/v1/lst/hold_session", `{"key":7}`},
	{"POST", "/v1/lst/new_session", `{"key":7,"name":"night"}`},
	{"POST", "/v1/lst/add_group", `{"key":7,"name":"all","ids":["10.0.0.1@tcp"]}`},
	{"POST", "/v1/lst/del_group", `{"key":7,"name":"all"}`},
	{"POST", "/v1/lst/end_session", `{"key":7}`},
	{"POST", "/v1/lst/disable", `{"force":true}`},
}

// exampleDaemon returns the daemon that answers the examples. Its configuration names the net type mpi.
func exampleDaemon(lst *console.Console) *controltest.Daemon {
	if err := lnet.NameType(lnet.NamedType{Type: 127, Name: "mpi", IP: true}); err != nil {
		panic(err)
	}
	buffers := api.Pools{
		Tiny: api.Pool{Buffers: 512, Credits: 512, MinCredits: 500}, Small: api.Pool{Pages: 1, Buffers: 4096, Credits: 4096, MinCredits: 4090},
		Large: api.Pool{Pages: 256, Buffers: 256, Credits: 256, MinCredits: 250},
	}
	counts := api.MessageCounts{Put: 40, Get: 2, Reply: 2, Ack: 38}
	noPolicy := api.UDSPInfo{NetPriority: -1, NIDPriority: -1}
	return &controltest.Daemon{
		Is:   api.Version{Program: "lnetd", Version: "v1.2.3", Go: "go1.26.0", PID: 4711, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Uptime: 3600.5},
		Logs: api.Log{Level: "info", Configured: "info", Format: "json"},
		NetList: []api.Net{{Net: tcp, NIs: []api.NI{{
			NID: nid("10.0.0.1@tcp"), Status: "up", Since: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Interfaces: []string{"eth0"},
			Statistics: api.Statistics{Sent: 82, Received: 80, PutAck: api.Latency{Samples: 38, Min: 90_000, Max: 400_000, Avg: 120_000}},
			UDSP:       noPolicy, Sent: counts, Received: counts, Health: api.HealthStats{Value: 1000},
			Tunables: api.Tunables{PeerTimeout: 180, PeerCredits: 8, Credits: 256},
			LND:      []api.Tunable{{Name: "conns_per_peer", Value: 1}, {Name: "timeout", Value: 50}, {Name: "tos", Value: -1}},
			Counters: []api.Counter{{Name: "connections", Value: 3}}, DevCPT: -1, CPT: "[0]",
		}}}},
		PeerList: []api.Peer{{Primary: nid("10.0.0.2@tcp"), MultiRail: true, State: 273, Seq: 4, Told: 1, NIs: []api.PeerNI{{
			NID: nid("10.0.0.2@tcp"), State: "up", Credits: api.Credits{Max: 8, Available: 8, Min: 6},
			RouterCredits: api.Credits{Max: 8, Available: 8, Min: 8}, Refs: 1,
			Statistics: api.Statistics{Sent: 82, Received: 80}, UDSP: noPolicy, Sent: counts, Received: counts,
			Health: api.PeerHealthStats{Value: 1000},
		}}}},
		Forwards: api.Routing{State: api.RoutingEnabled, Ever: true, CPTs: []api.Pools{buffers}},
		Values: api.Globals{Values: map[string]int64{
			"numa_range": 0, "max_interfaces": 4096, "discovery": 1, "drop_asym_route": 0, "retry_count": 3,
			"transaction_timeout": 50, "health_sensitivity": 100, "recovery_interval": 1, "router_sensitivity": 100,
			"lnd_timeout": 12, "response_tracking": 3, "recovery_limit": 0, "max_recovery_ping_interval": 900,
		}},
		Totals:   api.Counters{Committed: 1, CommittedMax: 12, Sent: 82, Received: 80, SentBytes: 41_000, ReceivedBytes: 40_960},
		Drops:    []api.Reason{{Reason: "no portal entry", Count: 2}},
		Refusals: []api.Reason{{Reason: "too many connections", Count: 1}}, LogCounts: api.LogCounts{Summarized: 12, OverBudget: 3},
		Guests: api.Clients{Socket: "/run/lnetd/lnetd.sock", Clients: []api.ClientInfo{{
			ID: 7, PID: 4711, UID: 1000, GID: 1000, Program: "store", Cgroup: "/system.slice/store.service", Rule: "servers",
			Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Buffers: 2, Areas: 1, Bytes: 1 << 20, Requests: 9,
			TMs: []api.ClientTM{{
				NID: nid("10.0.0.1@tcp"), PID: uint32(lnet.PIDLustre), Portal: 34, ID: 1, Entries: 1024, Waiting: 1, Submissions: 3,
				Completions: 2, Waits: 3, BellReads: 2, BellWrites: 2,
				Queues: []api.ClientQueue{{Queue: "mRECV", Depth: 1, Completed: 2, Bytes: 300}},
			}},
		}}, ProxySocket: "/run/lnetd/proxies.sock", Proxies: []api.ProxyInfo{{
			Name: "mpi", NID: nid("10.0.0.1@mpi"), PID: 4712, UID: 1000, GID: 1000, Rule: "cluster", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Up: true,
			LNetPIDs: []lnet.PID{lnet.PIDLustre}, AreaBytes: 32 << 20, Sends: 1, Sent: 12, Received: 10, SentBytes: 4096, ReceivedBytes: 2048,
		}}, Unserved: []api.UnservedNI{{NI: "mpi1(eth7)", Reason: "it waits for its interface: there is no such interface"}}},
		Lst: exampleLst{lst}, WaitList: []api.WaitingNI{{Net: lnet.MakeNet(lnet.TypeTCP, 0), Interface: "eth7", Cause: "there is no such interface"}},
		Ill:        api.Recovery{Local: nids(), Peers: nids("10.0.0.2@tcp")},
		ChangeFunc: exampleChange,
		DescribedFunc: func(api.Document) (api.Described, error) {
			return api.Described{Routes: []api.Route{{Net: lnet.MakeNet(lnet.TypeO2IB, 0), Gateway: nid("10.0.0.7@tcp"), Hops: 2, Up: true}}}, nil
		},
		EventsFunc: func(api.EventFilter) server.Stream {
			lines := make(chan string, 1)
			lines <- `{"number":17,"time":"2026-01-02T03:04:05.678Z","kind":"ni","level":"warn","subject":"10.0.0.1@tcp",` +
				`"text":"link changed","details":{"cause":"no carrier","link":"down"}}` + "\n"
			close(lines)
			return controltest.Lines(lines)
		},
		ErrandsFunc: func(api.Document) ([]api.Errand, error) {
			return []api.Errand{{Ping: &api.PingRequest{NIDs: []string{"10.0.0.2@tcp"}}}}, nil
		},
		PingFunc: func(_ context.Context, to lnet.ProcessID, _ lnet.NID) (api.PingResult, error) {
			if to.NID != nid("10.0.0.2@tcp") {
				return api.PingResult{}, context.DeadlineExceeded
			}
			return api.PingResult{Primary: to.NID, MultiRail: true, PID: lnet.PIDLustre, RTT: 412_000, NIDs: nids("10.0.0.2@tcp", "10.0.1.2@tcp1")}, nil
		},
		DiscoverFunc: func(_ context.Context, n lnet.NID, _ bool) (api.Peer, error) {
			return api.Peer{Primary: n, MultiRail: true, NIs: []api.PeerNI{{NID: n}}}, nil
		},
		ExplainFunc: func(lnet.NID, lnet.NID, uint32) selection.Explanation {
			health := func(v int64) []selection.Figure {
				return []selection.Figure{{Criterion: selection.ByNIHealth, Value: v}}
			}
			return selection.Explanation{Case: "any NID of a multi-rail peer", Err: selection.ErrUnreachable, Steps: []selection.Step{{
				What: "NI",
				Candidates: []selection.Candidate{
					{Name: "10.0.0.1@tcp", By: selection.ByNothing, Figures: health(1000)},
					{Name: "10.0.1.1@tcp", By: selection.ByNIHealth, Figures: health(900)},
				},
				Excluded: []selection.Exclusion{{Name: "o2ib", Why: "the peer is not on it"}},
			}}}
		},
	}
}

// exampleLst is LNet selftest on that daemon.
type exampleLst struct{ console *console.Console }

func (l exampleLst) Status() api.LstStatus {
	return api.LstStatus{
		Enabled: true, Bounds: api.LstBounds{Memory: 64 << 20, SessionTimeout: 100, Units: 4096},
		Session: &api.LstAgentSession{
			Name: "night", Console: "10.0.0.1@tcp", Stamp: 946684800000, Age: 1.5,
			Tests: []api.LstAgentTest{{
				Batch: 1, Index: 1, Kind: "ping", Client: true, Units: 1,
				Latency: &api.LstLatency{
					Count: 10, Mean: 90 * time.Microsecond, P50: 80 * time.Microsecond, P90: 110 * time.Microsecond,
					P99: 120 * time.Microsecond, Max: 120 * time.Microsecond,
				},
			}},
		},
		Counters: api.LstCounters{Sent: 12, Received: 12},
	}
}
func (l exampleLst) Enable(api.LstBounds) error          { return nil }
func (l exampleLst) Disable(context.Context, bool) error { return nil }
func (l exampleLst) Console() (*console.Console, error)  { return l.console, nil }

// exampleChange answers the documents of the examples.
func exampleChange(r api.ConfigurationChange) (api.ConfigurationChanged, error) {
	if !r.Dry {
		return api.ConfigurationChanged{}, &api.Fault{
			Code: api.CodeConfigInvalid, Errno: -22, Text: "the document site.yaml has errors; nothing is changed",
			Problems: []api.Problem{{
				File: "site.yaml", Line: 1, Column: 1, Key: "gobal", Text: "invalid key 'gobal'", Remedy: "did you mean \"global\"?",
			}},
		}
	}
	return api.ConfigurationChanged{Commands: []string{"set retry_count 2"}}, nil
}
