package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/lnet"
)

// started is when the daemons of the tests of rates have started.
var started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)

// busyNode is a daemon whose counters grow in each step of 2 s.
type busyNode struct {
	*controltest.Daemon
	nids []lnet.NID
	mu   sync.Mutex // guards step
	step uint64
}

func (n *busyNode) steps() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.step
}

// pause makes one step in place of a pause of a program.
func (n *busyNode) pause(context.Context, time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step++
	return nil
}

func (n *busyNode) Version() api.Version {
	return api.Version{Program: "lnetd", Version: "v1.2.3", PID: 4711, Started: started, Uptime: 100 + 2*float64(n.steps())}
}

func (n *busyNode) Nets() []api.Net {
	step := n.steps()
	ni := func(nid lnet.NID, status string, each uint64) api.NI {
		return api.NI{
			NID: nid, Status: status, Reason: map[string]string{"down": "link down"}[status], Health: api.HealthStats{Value: 1000, Timeouts: step},
			Statistics: api.Statistics{Sent: each * step, Received: 2 * each * step}, Sent: api.MessageCounts{Put: each * step},
			Counters: []api.Counter{{Name: "sent_bytes_total", Value: 5000 * each * step}},
		}
	}
	return []api.Net{
		{Net: lnet.MakeNet(lnet.TypeTCP, 0), NIs: []api.NI{ni(n.nids[0], "up", 20)}},
		{Net: lnet.MakeNet(lnet.TypeTCP, 1), NIs: []api.NI{ni(n.nids[1], "down", 0)}},
	}
}

func (n *busyNode) Stats() api.Stats {
	step := n.steps()
	return api.Stats{
		Counters: api.Counters{Committed: 9 - step, Sent: 30 * step, Routed: 8 * step, RoutedBytes: 4096 * step},
		Drops:    []api.Reason{{Reason: "no portal entry", Count: 2 * step}},
	}
}

func newBusyNode(t *testing.T) *busyNode {
	t.Helper()
	peer := func(nid string) api.Peer {
		return api.Peer{Primary: mustNID(t, nid), NIs: []api.PeerNI{{NID: mustNID(t, nid)}}}
	}
	return &busyNode{nids: []lnet.NID{mustNID(t, "10.0.0.1@tcp"), mustNID(t, "10.0.1.1@tcp1")}, Daemon: &controltest.Daemon{
		PeerList:  []api.Peer{peer("10.0.0.2@tcp"), peer("10.0.0.3@tcp")},
		RouteList: []api.Route{{Net: lnet.MakeNet(lnet.TypeTCP, 7), Gateway: mustNID(t, "10.0.0.2@tcp"), Up: true}, {Net: lnet.MakeNet(lnet.TypeTCP, 8), Gateway: mustNID(t, "10.0.0.9@tcp")}},
		Guests:    api.Clients{Socket: "s", Clients: []api.ClientInfo{{ID: 7, Program: "store"}}},
	}}
}

// With --interval, commands that print counters print how much they grow per second by lnetd's clock, as a table. Columns
// of level 2 are left out if nothing has grown.
func TestRatesOfEveryCommand(t *testing.T) {
	for line, want := range map[string]string{
		"net show": `03:05:47, in 2.0 s:
NI              sent/s  received/s  dropped/s  sent_bytes/s  received_bytes/s
10.0.0.1@tcp      10.0        20.0          0         50.0k                 0
10.0.1.1@tcp1        0           0          0             0                 0  down: link down
`,
		"net show -v 2 --net tcp": `03:05:47, in 2.0 s:
NI             sent/s  received/s  dropped/s  sent_bytes/s  received_bytes/s  sent_put/s  timeouts/s
10.0.0.1@tcp     10.0        20.0          0         50.0k                 0        10.0         0.5
`,
		"peer show --nid 10.0.0.[2-3]@tcp": `03:05:47, in 2.0 s:
peer NI        sent/s  received/s  dropped/s
10.0.0.2@tcp        0           0          0
10.0.0.3@tcp        0           0          0
`,
		"routing show": `03:05:47, in 2.0 s:
counter        count/s
route_count        4.0
drop_count           0
route_length      2048
drop_length          0
`,
		"route show": `03:05:47, in 2.0 s:
route                       sent/s  received/s  dropped/s
tcp7 through 10.0.0.2@tcp        0           0          0
tcp8 through 10.0.0.9@tcp        0           0          0  down
`,
		"clients": `03:05:47, in 2.0 s:
program   sent/s  received/s  dropped/s  sent_bytes/s  received_bytes/s
7 store        0           0          0             0                 0
`,
	} {
		n := newBusyNode(t)
		got := runProgram(program{pause: n.pause}, append(words(line), "--interval", "2", "--count", "1", "--control-socket", serve(t, n))...)
		if diff := cmp.Diff(ran{stdout: want}, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

// "stats show" has all counters of the node, without the numbers that can decrease, and with --verbose the reasons.
func TestRatesOfTheNode(t *testing.T) {
	n := newBusyNode(t)
	got := runProgram(program{pause: n.pause}, "stats", "show", "-v", "--interval", "0.5", "--count", "2", "--json", "--control-socket", serve(t, n))
	intervals, err := jsonDocuments[ratesJSON](got.stdout)
	if err != nil || len(intervals) != 2 || strings.Count(got.stdout, "\n") != 2 {
		t.Fatal(err, got)
	}
	rates := map[string]float64{}
	for _, o := range intervals[1].Objects {
		rates[o.Name] = o.Rates["count"]
	}
	for name, want := range map[string]float64{"send_count": 15, "route_length": 2048, "drop: no portal entry": 1, "errors": 0} {
		if got, ok := rates[name]; !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, has := rates["msgs_alloc"]; has || !intervals[1].Time.Equal(started.Add(104*time.Second)) || intervals[1].Seconds != 2 {
		t.Errorf("%+v", intervals[1])
	}
}

// Without --count the command goes on until it is interrupted, and invalid options are errors.
func TestIntervalOptions(t *testing.T) {
	n := newBusyNode(t)
	path := serve(t, n)
	p := program{pause: func(context.Context, time.Duration) error {
		if n.steps() == 3 {
			return errors.New("interrupted")
		}
		return n.pause(t.Context(), 0)
	}}
	if got := runProgram(p, "clients", "--interval=500ms", "--control-socket", path); strings.Count(got.stdout, " in 2.0 s:\n") != 3 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"--interval=0", "--interval=-1", "--interval=0.01", "--interval=3601", "--interval=NaN", "--interval=Inf", "--interval=1e300", "--interval=x",
		"--interval 1 --count 0", "--interval 1 --count x", "--count 2"} {
		if got := runProgram(p, append(words("net show "+bad), "--control-socket", path)...); got.status != exitInvalid || got.stdout != "" || !strings.Contains(got.stderr, "option '--") {
			t.Errorf("%s: %+v", bad, got)
		}
	}
	if got := runProgram(program{}, "net", "show", "--interval", "1", "--control-socket", t.TempDir()+"/none"); got.status != exitFailure {
		t.Errorf("without lnetd: %+v", got)
	}
	if got := runProgram(program{}, "net", "show", "--interval", "1", "--count", "1", "--net", "tcp9", "--json", "--control-socket", path); got.status != exitInvalid ||
		!json.Valid([]byte(got.stderr)) {
		t.Errorf("of a net that does not exist: %+v", got)
	}
}

func TestPerSecond(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.04: "0.0", 1: "1.0", 99.94: "99.9", 100: "100", 9999: "9999", 10_000: "10.0k", 123_456: "123k", 2.5e6: "2.5M", 3e9: "3.0G", 1e21: "1000E",
	} {
		if got := perSecond(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
