package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/report"
)

// selftest 8 (9)
func TestBRWParameters(t *testing.T) {
	tests := []struct {
		words string
		want  api.LstBRW
		err   string
	}{
		{"", api.LstBRW{Size: 4096, Check: "none"}, ""},
		{"read check=full size=1M", api.LstBRW{Size: 1 << 20, Check: "full"}, ""},
		{"WRITE S=16k C=Simple", api.LstBRW{Write: true, Size: 16384, Check: "simple"}, ""},
		{"w off=4096 size=8", api.LstBRW{Write: true, Size: 8, Offset: 4096, Check: "none"}, ""},
		{"write r", api.LstBRW{Size: 4096, Check: "none"}, ""},
		{"check=discard", api.LstBRW{Size: 4096, Check: "discard"}, ""},
		{"skip-rx-copy", api.LstBRW{Size: 4096, Check: "discard"}, ""},
		{"c=discard skip_rx_copy", api.LstBRW{Size: 4096, Check: "discard"}, ""},
		{"skip_rx_copy check=full", api.LstBRW{}, "skip_rx_copy conflicts with check=full"},
		{"foo", api.LstBRW{}, "Unknow parameter: foo"},
		{"foo=1", api.LstBRW{}, "Unknow parameter: foo=1"},
		{"read=1", api.LstBRW{}, "Unknow parameter: read=1"},
		{"size=", api.LstBRW{}, "Invalid size "},
		{"size=0", api.LstBRW{}, "Invalid size 0"},
		{"size=-8", api.LstBRW{}, "Invalid size -8"},
		{"size=1G", api.LstBRW{}, "Invalid size 1G"},
		{"size=99999999999999999999", api.LstBRW{}, "Invalid size 99999999999999999999"},
		{"size=1025k", api.LstBRW{}, "Size exceed limitation: 1049600 bytes"},
		{"off=4", api.LstBRW{}, "Invalid offset 4"},
		{"off=-8", api.LstBRW{}, "Invalid offset -8"},
		{"check=none", api.LstBRW{}, "Invalid flag for check: none"},
	}
	for _, tt := range tests {
		got, err := brwParameters(strings.Fields(tt.words))
		switch {
		case err == nil && tt.err != "", err != nil && err.Error() != tt.err:
			t.Errorf("%q: error %v, want %q", tt.words, err, tt.err)
		case err == nil && got != tt.want:
			t.Errorf("%q: %+v", tt.words, got)
		}
	}
}

// selftest 8 (8)
func TestParseDistribute(t *testing.T) {
	for s, want := range map[string][2]int{"1:1": {1, 1}, "4:2": {4, 2}, "": {}, "1": {}, "0:1": {}, "1:0": {}, "a:b": {}, "1:1:1": {}} {
		n, m, ok := parseDistribute(s)
		if ok != (want[0] > 0) || ok && (n != want[0] || m != want[1]) {
			t.Errorf("%q: %d:%d, %v", s, n, m, ok)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"10": 10 * time.Second, "1s": time.Second, "5m": 5 * time.Minute, "24h": 24 * time.Hour,
		"": 0, "0": 0, "1ms": 0, "-5": 0, "25h": 0, "soon": 0,
	} {
		if got, err := parseSeconds(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
}

func TestMemorySize(t *testing.T) {
	for s, want := range map[string]int64{
		"2097152": 2 << 20, "64M": 64 << 20, "3000000000": 3000000000, "1g": 1 << 30, "1T": 1 << 40, "1048576m": 1 << 40, "2048K": 2 << 20,
		"": 0, "M": 0, "2T": 0, "1.5G": 0, "64MB": 0, "99999999999999999999": 0, "8388608T": 0,
	} {
		if got, ok := memorySize(s); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", s, got, ok)
		}
	}
}

func TestSessionName(t *testing.T) {
	for name, want := range map[string]string{
		"root@vm": "root@vm", strings.Repeat("x", 40): strings.Repeat("x", 31), strings.Repeat("é", 20): strings.Repeat("é", 15),
	} {
		if got := sessionName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 49151: "49.2µs", 12345678: "12.3ms", time.Second: "1s", 12345 * time.Millisecond: "12.3s",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// Options of stat choose blocks, lines and columns.
//
// selftest 9 (3)-(5)
func TestStatOptions(t *testing.T) {
	mib := float64(1 << 20)
	i := &report.Interval{
		Name: "g", Nodes: 2,
		Receive: report.Traffic{Rate: report.Figure{Avg: 1, Min: 2, Max: 3}, Bandwidth: report.Figure{Avg: 4 * mib, Min: 5 * mib, Max: 6 * mib}},
		Send:    report.Traffic{Rate: report.Figure{Avg: 7, Min: 8, Max: 9}, Bandwidth: report.Figure{Avg: 1e6, Min: 2e6, Max: 3e6}},
	}
	i.RPC.Sent.Avg, i.RPC.BulkGet.Max, i.RPC.Expired = 5, 3*mib, 2
	tests := []struct {
		name string
		o    statOptions
		want string
	}{
		{"lines of what is received", statOptions{rate: true, read: true},
			"[LNet Rates of g]\n[R] Avg: 1        RPC/s Min: 2        RPC/s Max: 3        RPC/s\n"},
		{"lines of what is sent", statOptions{rate: true, write: true, most: true},
			"[LNet Rates of g]\n[W] Max: 9        RPC/s\n"},
		{"MB", statOptions{bandwidth: true, write: true, mbs: true, least: true},
			"[LNet Bandwidth of g]\n[W] Min: 2.00     MB/s  \n"},
		{"both blocks", statOptions{read: true, avg: true},
			"[LNet Rates of g]\n[R] Avg: 1        RPC/s \n[LNet Bandwidth of g]\n[R] Avg: 4.00     MiB/s \n"},
		{"RPCs", statOptions{rpc: true},
			"[RPC Rates of g]\n[R] Avg: 0        RPC/s Min: 0        RPC/s Max: 0        RPC/s\n" +
				"[W] Avg: 5        RPC/s Min: 0        RPC/s Max: 0        RPC/s\n" +
				"[RPC Bulk of g]\n[R] Avg: 0.00     MiB/s Min: 0.00     MiB/s Max: 3.00     MiB/s \n" +
				"[W] Avg: 0.00     MiB/s Min: 0.00     MiB/s Max: 0.00     MiB/s \n" +
				"[RPC Errors of g]\nErrors: 0 Dropped: 0 Expired: 2\n"},
	}
	for _, tt := range tests {
		var b strings.Builder
		tt.o.write1(&b, i)
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	var b strings.Builder
	i.Failed = 3
	(&statOptions{rate: true, read: true, avg: true}).write1(&b, i)
	if !strings.HasPrefix(b.String(), "Failed to stat on 3 nodes\n[LNet") {
		t.Errorf("%q", b.String())
	}
}

// selftest 8 (12)
func TestQuerySummary(t *testing.T) {
	for want, q := range map[string]report.QueryResult{
		"b [2] is running\n":                             {Running: 2},
		"b [2] is stopped\n":                             {Idle: 2},
		"b [2] stopped: 1 , running: 2, failed: 0\n":     {Idle: 1, Running: 2},
		"b [2] stopped: 0 , running: 0, failed: 1\n":     {Failed: 1},
		"b [2] stopped: 10 , running: 0, failed: 1000\n": {Idle: 10, Failed: 1000},
	} {
		var b strings.Builder
		(&queryOptions{test: 2}).show(&program{stdout: &b}, "b", &q)
		if b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}

// If the key of a session is missing, or lnetd does not run, lst says so.
//
// selftest 8 (1)
func TestLstWithoutKeyOrDaemon(t *testing.T) {
	for _, key := range []string{"", "0", "x", "7x"} {
		t.Setenv("LST_SESSION", key)
		got := runProgram(program{name: lstName}, "list_group")
		if diff := cmp.Diff(ran{"", "Can't find env LST_SESSION or value is not valid\n", 255}, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("key %q: %s", key, diff)
		}
	}
	t.Setenv("LST_SESSION", "7")
	path := filepath.Join(t.TempDir(), "none")
	got := runProgram(program{}, "lst", "list_group", "--control-socket", path)
	want := ran{"", "cannot reach lnetd at " + path + ": No such file or directory\n" +
		"start lnetd, or give the right socket with --control-socket or LNETD_CONTROL_SOCKET\n", 255}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
	got = runProgram(program{}, "lst", "--json", "list_group", "--control-socket", serve(t, newCannedNode()))
	var refusal struct{ Error *api.Fault }
	if err := json.Unmarshal([]byte(got.stderr), &refusal); err != nil || refusal.Error.Code != api.CodeLstDisabled {
		t.Errorf("%+v: %v", got, err)
	}
}

// Every invalid command line has lst's exit status -1.
//
// selftest 8 (1)
func TestLstMisuse(t *testing.T) {
	t.Setenv("LST_SESSION", "7")
	for _, line := range []string{
		"foo", "stat --frob", "stat --count x g", "stat", "add_group g", "add_test ping", "ping", "ping --session --group g",
		"ping --server --group g", "update_group g", "update_group --refresh --clean busy g", "del_group", "list_batch a b",
		"new_session a b", "end_session now", "add_test --from a --to b", "quick", "quick --from a", "quick --from a --to b --time 0",
		"quick --from a --to b --distribute 1", "quick --from a --to b --concurrency 0", "quick --from a --to b --size 2M",
		"quick --from a --to b --ping --write", "quick --from a --to b --ping --size 4K", "quick --from a --to b --check some",
		"stat --delay 0 g", "query --delay 0", "stat --delay 10000000000 g", "query --delay 10000000000", "enable --memory 2T", "update_group --clean odd g", "enable now", "new_session " + strings.Repeat("x", 32),
	} {
		for _, p := range []program{{name: lstName}, {name: "lnetdctl"}} {
			args := strings.Fields(line)
			if p.name != lstName {
				args = append([]string{lstName}, args...)
			}
			if got := runProgram(p, append(args, "--control-socket", "/nowhere")...); got.status != exitFailure ||
				got.stdout+got.stderr == "" || strings.Contains(got.stderr, "cannot reach") {
				t.Errorf("%s %v: %+v", p.name, args, got)
			}
		}
	}
}

// The texts of help, under either name.
//
// selftest 8 (1)
func TestLstHelp(t *testing.T) {
	for _, p := range []program{{name: lstName}, {name: "lnetdctl"}} {
		for _, line := range []string{"help stat", "stat --help", "stat -h"} {
			args := strings.Fields(line)
			if p.name != lstName {
				args = append([]string{lstName}, args...)
			}
			if got := runProgram(p, args...); !strings.Contains(got.stdout, "lst stat - show the traffic of nodes") || !strings.Contains(got.stdout, "LST_SESSION  ") {
				t.Errorf("%v: %+v", args, got)
			}
		}
	}
}

// The remaining commands of a session: groups that change, batches that stop by themselves,
// programs that read JSON, figures of RPCs.
//
// selftest 8 (1)-(8), 8 (10)-(14), 8 (16), 9 (5)
func TestLstSession(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	t.Setenv("LST_FEATURES", "0x3")
	tests := []struct {
		line   string
		status int
		want   string // a prefix, or the whole text if it ends with $
	}{
		{"new_session", 255, "Failed to create session: Protocol error\nunknown features 0x2\n$"},
		{"LST_FEATURES=", 0, ""},
		{"new_session --timeout 2147483648 s", 255, "Invalid parameters list in command line\ntimeout 2147483648 is not within "},
		{"new_session --timeout 2147483647 s", 0, "SESSION: s FEATURES: 1 TIMEOUT: 2147483647 FORCE: No\n$"},
		{"end_session", 0, "$"},
		{"new_session \u009b31m", 255, "Invalid parameters list in command line\nthe name contains unprintable characters\n$"},
		{"new_session s", 0, "SESSION: s FEATURES: 1 TIMEOUT: 300 FORCE: No\n$"},
		{"ping --session", 0, "Target session is empty\n$"},
		{"ping --group nosuch", 255, "Failed to get count of nodes from nosuch: No such file or directory\n$"},
		{"add_group g 10.77.0.[11-12@tcp", 254, "Ignore invalid id list 10.77.0.[11-12@tcp\n"},
		{"add_group g 10.77.0.[11-13]@tcp", 0, "create session RPC failed on 12345-10.77.0.13@tcp: Unknown error -#\n10.77.0.[11-13]@tcp are added to session\n$"},
		{"add_group g 10.77.0.11@tcp", 255, "group already exists\n$"},
		{"list_group g nosuch g", 0, "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t2\t0\t1\t0\t3\tg\n\t2\t0\t1\t0\t3\tg\n$"},
		{"list_group --down --busy g", 0, "Group [ g ]\n\t12345-10.77.0.13@tcp: Down\nTotal 1 nodes [ g ]\n$"},
		{"list_group --busy g", 0, "Group [ g ]\nNo nodes found [ g ]\n$"},
		{"ping -g g", 0, "\t12345-10.77.0.11@tcp: Active [session: s id: 10.77.0.11@tcp]\n" +
			"\t12345-10.77.0.12@tcp: Active [session: s id: 10.77.0.11@tcp]\n\t12345-10.77.0.13@tcp: Down [session: <NULL> id: LNET_NID_ANY]\n$"},
		{"show_error --session g", 0, "g:\nRPC failure, can't show error on 12345-10.77.0.13@tcp\nTotal 1 error nodes in g\n$"},
		{"add_test --from g --to g ping", 255, "Failed to add test: Network is down\n$"},
		{"update_group --refresh g", 255, "update group RPC failed on 12345-10.77.0.13@tcp: Unknown error -#\n$"},
		{"update_group --clean invalid g", 0, "$"},
		{"update_group --remove 10.77.0.12@tcp g", 0, "$"},
		{"update_group --remove 10.77.0.12@tcp nosuch", 255, "Can't find group in current session\n$"},
		{"list_group --all g", 0, "Group [ g ]\n\t12345-10.77.0.11@tcp: Active\nTotal 1 nodes [ g ]\n$"},
		{"list_group --json g", 0, "[\n  {\n"},
		{"add_group big 10.77.0.[1" + strings.Repeat(",1", 40000) + "]@tcp", 255, "Invalid parameters list in command line\nrequest body cannot be read: http: request body too large\n$"},
		{"add_group h 10.77.0.12@tcp", 0, "10.77.0.12@tcp are added to session\n$"},
		{"add_test ping", 255, "Can't find test in current session\n$"},
		{"add_test --from g --to nosuch ping", 255, "Can't find test in current session\n$"},
		{"show_error g nosuch", 255, "Can't find nosuch in current session\n$"},
		{"run", 0, "batch is running now\n$"},
		{"query", 0, "Batch or test is empty\n$"},
		{"add_test --from g --to h ping size=4", 255, "Unknow parameter: size=4\nFailed to add test (ping)\n$"},
		{"add_test --from g --to h PING", 0, "Test was added successfully\n$"},
		{"run --timeout -5", 255, "Invalid parameters list in command line\ntimeout -5 is not within 0 to 2147483647 seconds\n$"},
		{"run --timeout 10000000000", 255, "Invalid parameters list in command line\ntimeout 10000000000 is not within "},
		{"run --timeout 1", 0, "batch is running now\n$"},
		{"stat --rpc --bw --count 1 g", 0, "[RPC Bulk of g]\n[R] "},
		{"stat --json --count 1 g h", 0, `[{"name":"g",`},
		{"stat --json --count 1 nosuch", 255, "{\n  \"error\""},
		{"query --test 2", 255, "Failed to get count of nodes from batch: No such file or directory\n$"},
		{"query --idle", 0, "$"},
		{"query --active --test 1", 0, "12345-10.77.0.11@tcp [Active]: Running\n$"},
		{"list_batch batch", 0, "Batch: batch Tests: 1 State: 177\n"},
		{"stop --force", 0, ""},
		{"query", 0, "batch [0] is stopped\n$"},
		{"list_batch --test 2 batch", 255, "Can't find test in current session\n$"},
		{"list_batch nosuch", 255, "Can't find batch in current session\n$"},
		{"del_group nosuch", 255, "Can't find group in current session\n$"},
		{"status", 0, "selftest:\n    enabled: true\n"},
		{"enable --units -1", 255, "Failed to enable LNet selftest: units is not within 1 to 16777216\n$"},
		{"end_session", 0, "$"},
	}
	for _, tt := range tests {
		if value, ok := strings.CutPrefix(tt.line, "LST_FEATURES="); ok {
			t.Setenv("LST_FEATURES", value)
			continue
		}
		got, status := n.lst("peerA", strings.Fields(tt.line)...)
		// The earlier connections to the node determine why it cannot be reached.
		got = regexp.MustCompile(`Unknown error -[0-9]+`).ReplaceAllString(got, "Unknown error -#")
		all := lstStopping.ReplaceAllString(got, "") + "$"
		if status != tt.status || !strings.HasPrefix(all, tt.want) {
			t.Errorf("%s: status %d, want %d\ngot  %q\nwant %q", tt.line, status, tt.status, got, tt.want)
		}
	}
}

// stop prints once a second how many nodes still run.
//
// selftest 8 (10)
func TestLstStopWaits(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	for _, line := range []string{
		"new_session s", "add_group g 10.77.0.11@tcp", "add_group h 10.77.0.12@tcp",
		"add_test --concurrency 64 --from g --to h brw size=1M", "run",
	} {
		if out, status := n.lst("peerA", strings.Fields(line)...); status != 0 {
			t.Fatalf("%s: %s", line, out)
		}
	}
	var out strings.Builder
	waits := 0
	p := program{name: lstName, stdout: &out, stderr: &out, socket: n.sockets["peerA"], pause: func(ctx context.Context, d time.Duration) error {
		if d != time.Second {
			t.Errorf("stop waits %v", d)
		}
		waits++
		return ctx.Err()
	}}
	if status := p.run([]string{"stop"}); status != 0 {
		t.Errorf("status %d", status)
	}
	if want := strings.Repeat("1 batch in stopping\n", waits) + "Batch is stopped\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// If a quick test finds errors, it ends at once, names the nodes with errors, and fails. Its
// session has ended.
func TestLstQuickSeesErrors(t *testing.T) {
	n := newLstNetwork(t, "enabled: true, brw_inject_errors: 5")
	var out, errs strings.Builder
	p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: n.sockets["peerA"]}
	status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --size 4K --check full --time 1h"))
	if status != exitFailure || !strings.Contains(out.String(), "\nfrom:\nTotal 1 error nodes in from\n") ||
		!strings.HasPrefix(errs.String(), "12345-10.77.0.11@tcp: [Session ") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
	if got, status := n.lst("peerA", "show_session"); status != exitFailure || got != "No session exists\n" {
		t.Errorf("status %d, %q", status, got)
	}
}

// Nodes that do not take part are named, with the reason.
func TestLstQuickNeedsAllNodes(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	for _, tt := range []struct{ args, want string }{
		{"--from 10.77.0.11@tcp --to 10.77.0.[12-13]@tcp", "12345-10.77.0.13@tcp did not join the session: Connection refused; "},
		{"--from 10.77.0.11@tcp --to nobody@", "Invalid --to nobody@: "},
		{"--from 10.77.0.11@tcp --to 10.77.0.12@tcp --size 4k --offset 8", "Failed to add test: 4096 bytes at offset 8 need more pages "},
		{"--from 10.77.0.11@tcp --to 10.77.0.12@tcp --distribute 1:2", "Failed to add test: "},
	} {
		var out, errs strings.Builder
		p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: n.sockets["peerA"]}
		status := p.run(append([]string{"lst", "quick"}, strings.Fields(tt.args)...))
		if status != exitFailure || out.String() != "" || !strings.HasPrefix(errs.String(), tt.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", tt.args, status, out.String(), errs.String())
		}
		if got, _ := n.lst("peerA", "show_session"); got != "No session exists\n" {
			t.Errorf("%s: %q", tt.args, got)
		}
	}
}
