package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/lnetd/topology"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// troubledFacts are facts about a node on which much is wrong.
func troubledFacts(t *testing.T) *diagnosis.Facts {
	t.Helper()
	nid := func(s string) lnet.NID { return mustNID(t, s) }
	peer := func(s, trouble string, others ...api.PeerNI) api.Peer {
		return api.Peer{Primary: nid(s), NIs: append([]api.PeerNI{{NID: nid(s), Trouble: trouble, Health: api.PeerHealthStats{Value: 1000}}}, others...)}
	}
	const silent = "not answering since 2026-01-02T03:04:05Z"
	stranger := peer("10.0.0.9@tcp", "")
	stranger.Unanswered, stranger.Unused = true, true
	unused := peer("10.0.0.6@tcp", "")
	unused.Unused = true
	return &diagnosis.Facts{Node: &diagnosis.Node{
		Version: api.Version{Version: "v1.2.3", PID: 4711, Started: started, Uptime: 90_000},
		Nets: api.Nets{Nets: []api.Net{
			{Net: lnet.LoNet, NIs: []api.NI{{NID: lnet.LoopbackNID, Status: "up"}}},
			{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{
				{NID: nid("10.0.0.1@tcp"), Status: "up", Since: started, Health: api.HealthStats{Value: 1000}, Interfaces: []string{"eth0"}},
				{NID: nid("10.0.1.1@tcp"), Status: "down", Reason: "link down", Since: started.Add(24 * time.Hour), Health: api.HealthStats{Value: 900}, Interfaces: []string{"eth1"}},
			}},
		}, Waiting: []api.WaitingNI{{Net: lnet.MakeNet(lnet.TypeTCP, 1), Interface: "eth7", Cause: "there is no such interface"}}},
		Peers: []api.Peer{
			peer("10.0.0.2@tcp", ""), peer("10.0.0.3@tcp", silent), peer("10.0.0.4@tcp", silent, api.PeerNI{NID: nid("10.0.1.4@tcp"), Health: api.PeerHealthStats{Value: 1000}}), stranger, unused,
		},
		Routes: []api.Route{
			{Net: lnet.MakeNet(lnet.TypeO2IB, 0), Gateway: nid("10.0.0.2@tcp"), Up: true}, {Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: nid("10.0.0.3@tcp")},
		},
		Clients: api.Clients{Socket: "s", Clients: []api.ClientInfo{{ID: 7, TMs: make([]api.ClientTM, 2)}}},
	}}
}

// The text has what is down first, since when, and the worst findings with remedies, on one screen.
func TestStatusText(t *testing.T) {
	s := summarize(troubledFacts(t))
	want := `lnetd v1.2.3, pid 4711, up 1d 1h since 2026-01-02 03:04:05

NI           status  health                since         interface
10.0.1.1@tcp down       900  2026-01-03 03:04:05  1h 0m  eth1: link down
10.0.0.1@tcp up        1000  2026-01-02 03:04:05  1d 1h  eth0
eth7 on tcp1 is waiting: there is no such interface

peers:    5: 1 up, 1 not used yet, 1 partly up, 1 down, 1 never answered
routes:   2: 1 up, 1 down, tcp9 through 10.0.0.3@tcp
programs: 1 with 2 transfer machines

`
	got := s.text(started.Add(25 * time.Hour))
	head, findings, _ := strings.Cut(got, "machines\n\n")
	if diff := cmp.Diff(want, head+"machines\n\n"); diff != "" {
		t.Error(diff)
	}
	lines := strings.Split(strings.TrimSpace(findings), "\n")
	if s.Severity != "error" || len(lines) < 4 || !strings.HasPrefix(lines[0], "error LNET") || !strings.HasPrefix(lines[1], "    remedy: ") {
		t.Errorf("%s: %s", s.Severity, findings)
	}
	if n := strings.Count(got, "\n"); n > 24 {
		t.Errorf("%d lines", n)
	}
}

// A peer counts as in "topology" and on the status page.
func TestStatusCountsPeers(t *testing.T) {
	f := troubledFacts(t)
	nid := mustNID(t, "10.0.0.5@tcp")
	healthy, unhealthy := api.PeerHealthStats{Value: 1000}, api.PeerHealthStats{Value: 900}
	for _, tt := range []struct {
		name string
		nis  []api.PeerNI
		want peerSummary
	}{
		{"up", []api.PeerNI{{NID: nid, Health: healthy}}, peerSummary{Total: 1, Up: 1}},
		{"stopped", []api.PeerNI{{NID: nid, Health: unhealthy, Trouble: "connection refused at 2026-01-02T03:04:05Z"}}, peerSummary{Total: 1, Down: 1}},
		{"less than full health", []api.PeerNI{{NID: nid, Health: unhealthy}}, peerSummary{Total: 1, Partly: 1}},
		{"no health", []api.PeerNI{{NID: nid}}, peerSummary{Total: 1, Down: 1}},
		{"down on the nets of the node", []api.PeerNI{{NID: nid, State: "down", Health: healthy}, {NID: mustNID(t, "10.0.0.5@tcp7"), Health: healthy}}, peerSummary{Total: 1, Down: 1}},
	} {
		f.Node.Peers = []api.Peer{{Primary: nid, NIs: tt.nis}}
		if got := summarize(f).Peers; got != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
		b := topology.New(f.Node.Nets, nil, api.Routing{}, 1)
		b.Add(&f.Node.Peers[0])
		if all := b.Picture().AllPeers(); all.Down != tt.want.Down || all.Degraded != tt.want.Partly {
			t.Errorf("%s: the picture has %+v", tt.name, all)
		}
	}
}

// Names of interfaces and reasons cannot change the terminal.
func TestStatusIsPrintable(t *testing.T) {
	f := troubledFacts(t)
	const evil = "e\x1b[31mX\x07\u202e"
	for k := range f.Node.Nets.Nets[1].NIs {
		n := &f.Node.Nets.Nets[1].NIs[k]
		n.Interfaces, n.Reason, n.Status = []string{evil}, evil, "down"
	}
	f.Node.Nets.Waiting[0].Interface, f.Node.Nets.Waiting[0].Cause = evil, evil
	f.Node.Peers[1].NIs[0].Trouble = evil
	var doctor strings.Builder
	writeFindings(&doctor, []diagnosis.Finding{{Subject: evil, Evidence: evil, Remedy: evil}})
	for name, got := range map[string]string{
		"status": summarize(f).text(started), "doctor": doctor.String(),
		"doctor --watch": changesText(started, []diagnosis.Finding{{Subject: evil}}, nil, false),
	} {
		if strings.ContainsAny(got, "\x1b\x07\u202e") || !strings.Contains(got, `e\x1b[31mX`) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Of many NIs, routes and findings, as many are shown as fit.
func TestStatusOfABigNode(t *testing.T) {
	f := troubledFacts(t)
	down := f.Node.Nets.Nets[1].NIs[1]
	for range 30 {
		f.Node.Nets.Nets[1].NIs = append(f.Node.Nets.Nets[1].NIs, down)
		f.Node.Nets.Waiting = append(f.Node.Nets.Waiting, f.Node.Nets.Waiting[0])
		f.Node.Routes = append(f.Node.Routes, f.Node.Routes[1])
		f.Node.Clients.Unserved = append(f.Node.Clients.Unserved, api.UnservedNI{NI: "mpi"})
	}
	got := summarize(f).text(started)
	for _, part := range []string{"and 20 more\n", "and 19 more that wait\n", ", ...\n", " 30 NIs without a proxy\n", " more: lnetdctl doctor\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
}

// The exit status is that of the worst finding; as JSON, lists are never null.
func TestStatus(t *testing.T) {
	n := &controltest.Daemon{
		Is: api.Version{Version: "v1.2.3", Started: started, Uptime: 60}, Forwards: api.Routing{State: api.RoutingDisabled},
		NetList: []api.Net{{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{{NID: mustNID(t, "10.0.0.1@tcp"), Status: "up", Health: api.HealthStats{Value: 1000}}}}},
	}
	path := serve(t, n)
	got := runProgram(program{}, "status", "--control-socket", path)
	if got.status != exitOK || !strings.HasSuffix(got.stdout, "\nnothing is wrong\n") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	n.NetList[0].NIs[0].Status = "down"
	if got := runProgram(program{}, "status", "--control-socket", path); got.status != int(exitErrors) || !strings.Contains(got.stdout, "\nerror LNET2") {
		t.Errorf("%+v", got)
	}
	got = runProgram(program{}, "status", "--json", "--control-socket", path)
	var s summary
	if err := json.Unmarshal([]byte(got.stdout), &s); err != nil || got.status != int(exitErrors) || s.Severity != "error" || s.Daemon.Uptime != 60 ||
		len(s.NIs) != 1 || len(s.Findings) == 0 || strings.Contains(got.stdout, "null") {
		t.Errorf("%v %+v", err, got)
	}
	n.Down = true
	if got := runProgram(program{}, "status", "--control-socket", path); got.status == exitOK || !strings.Contains(got.stdout, "\nLNet is not configured\n") {
		t.Errorf("%+v", got)
	}
}

// Without lnetd, the command says so and what to do.
func TestStatusWithoutDaemon(t *testing.T) {
	socket := t.TempDir() + "/none"
	got := runProgram(program{}, "status", "--control-socket", socket)
	if got.status != int(exitErrors) || !strings.HasPrefix(got.stdout, "error LNET101 lnetd is not running: lnetd: cannot reach lnetd at "+socket) ||
		!strings.Contains(got.stdout, "\n    remedy: start lnetd") {
		t.Errorf("%+v", got)
	}
	got = runProgram(program{}, "status", "--json", "--control-socket", socket)
	if got.status != int(exitErrors) || !strings.Contains(got.stdout, `"daemon": null`) {
		t.Errorf("%+v", got)
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m 1s", 3 * time.Hour: "3h 0m", 76 * time.Hour: "3d 4h",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
