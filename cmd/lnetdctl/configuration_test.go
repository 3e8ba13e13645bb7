package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Results of commands that change nets with invalid options, and of refused ones.
//
// lnetctl 2 (4), 4.1, 4.2 (1), 4.3 (1), 4.5 (4)
// sanity-lnet 5 (230)
func TestNetRefusals(t *testing.T) {
	const conns = "invalid conns-per-peer value (valid range 0-127)"
	tests := []struct {
		line   string
		refuse error // by the daemon
		want   ran
	}{
		{line: "net add", want: ran{netMissingText + "\n", "", 234}},
		{line: "net del", want: ran{netMissingText + "\n", "", 234}},
		{line: "net del --if eth0", want: ran{netMissingText + "\n", "", 234}},
		{line: "net add --net tcp2", want: ran{"creating a local NI needs at least one interface\n", "", 234}},
		{line: "net add --net tcp2 --if ,", want: ran{"creating a local NI needs at least one interface\n", "", 234}},
		{line: "net add --net tcp --nid 10.1.2.3@tcp", want: ran{"--net is invalid with --nid option\n", "", 234}},
		{line: "net del --net tcp --nid 10.1.2.3@tcp", want: ran{"--net is invalid with --nid option\n", "", 234}},
		{line: "net add --net foo --if eth0", want: ran{"", newDocumentOf("add", "net", "-2", "cannot parse net"), 234}},
		{line: "net add --nid x", want: ran{"", newDocumentOf("add", "net", "-22", "cannot parse NID 'x'"), 234}},
		{line: "net add --net tcp2 --if eth0 -m 128", want: ran{"", oldDocumentOf("ni", "add", "-1", conns), 255}},
		{line: "net add --net tcp2 --if eth0 -m 1000000000000000000000000", want: ran{"", oldDocumentOf("ni", "add", "-1", conns), 255}},
		{line: "net add --net tcp2 --if eth0 -m foo", want: ran{"", oldDocumentOf("ni", "add", "-1", conns), 255}},
		{line: "net add --net tcp2 --if eth0 --tos 300", want: ran{"", oldDocumentOf("ni", "add", "-22", "Invalid ToS argument"), 234}},
		{line: "net add --net tcp2 --if eth0 --tos x", want: ran{"", oldDocumentOf("ni", "add", "-22", "Invalid ToS argument"), 234}},
		{line: "net add --ip2net " + strings.Repeat("x", 128), want: ran{"", newDocumentOf("add", "net", "-7", "ip2net string is too long"), 234}},
		{line: "net add --net lo --if eth0", want: ran{"", newDocumentOf("add", "net", "-22", "setting @lo not allowed"), 234}},
		{line: "net del --net lo", want: ran{"", newDocumentOf("del", "net", "-22", "setting @lo not allowed"), 234}},
		{line: "net add --net tcp2 --if eth0", refuse: node.ErrExists, want: ran{"", newDocumentOf("add", "net", "-17", "cannot add LNet NI"), 234}},
		{line: "net del --net foo", want: ran{"", newDocumentOf("del", "net", "-2", "cannot parse net"), 234}},
		{line: "net set --all --conns-per-peer 128", want: ran{"", oldDocumentOf("net", "set", "-1", conns), 255}},
		{line: "net set --nid x --conns-per-peer 1", want: ran{"", oldDocumentOf("net", "set", "-22", "cannot parse NID 'x'"), 234}},
		{line: "net set --net foo --lnd-timeout 1", want: ran{"", oldDocumentOf("net", "set", "-22", "Invalid network type: foo"), 234}},
		{line: "net set --net tcp --lnd-timeout -1", want: ran{"", oldDocumentOf("net", "set", "-22", "Invalid LND timeout value '-1', must be >= 0"), 234}},
		{line: "net set --net tcp --lnd-timeout 2147483647", want: ran{"", oldDocumentOf("net", "set", "-22", "Invalid LND timeout value '2147483647', must be 0 to 16777216"), 234}},
		{line: "net set --net tcp --lnd-timeout x", want: ran{"", oldDocumentOf("net", "set", "-22", "Invalid LND timeout value 'x', must be >= 0"), 234}},
		{line: "lnet unconfigure", refuse: fault(api.CodeLNetBusy, syscall.EBUSY, "LNet busy"), want: ran{"", newDocumentOf("configure", "lnet", "-16", "LNet busy"), 240}},
		{line: "lnet configure", refuse: fault(api.CodeNetRefused, syscall.EADDRINUSE, "LNet configure error: Address already in use"), want: ran{"", newDocumentOf("configure", "lnet", "-98", "LNet configure error: Address already in use"), 158}},
		{line: "import /nowhere/lnet.yaml", want: ran{"", "yaml:\n    - builder:\n          errno: -1\n          descr: \"cannot open '/nowhere/lnet.yaml': No such file or directory\"\n", 254}},
		{line: "export --backup /nowhere/lnet.yaml", want: ran{"", "yaml:\n    - builder:\n          errno: -1\n          descr: \"cannot open '/nowhere/lnet.yaml': No such file or directory\"\n", 255}},
		{line: "import --add --del", want: ran{"", newDocumentOf("add", "import", "-22", "--add, --del, --show and --exec cannot be combined"), 234}},
		{line: "plan --add --del", want: ran{"", "lnetdctl: --add and --del cannot be combined\n", 234}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			n := cannedPeer(t, "peerA")
			if tt.refuse != nil {
				n.Refuse = func(string) error { return tt.refuse }
			}
			path := serve(t, n)
			got := runProgram(program{}, append([]string{"--control-socket", path}, words(tt.line)...)...)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
			if len(n.Done) > 0 {
				t.Errorf("it has changed something: %v", n.Done)
			}
			got = runProgram(program{}, append([]string{"--control-socket", path, "--json"}, words(tt.line)...)...)
			var refusal struct{ Error *api.Fault }
			if err := json.Unmarshal([]byte(got.stderr), &refusal); err != nil || refusal.Error == nil || got.stdout != "" || got.status != tt.want.status {
				t.Errorf("as JSON: %+v: %v", got, err)
			}
		})
	}
}

func fault(code api.Code, errno syscall.Errno, text string) *api.Fault {
	return &api.Fault{Code: code, Errno: -int(errno), Text: text}
}

// The requests about nets that commands send to the daemon.
//
// lnetctl 4.1, 4.2 (1), 4.3 (1), 4.5 (1), 4.5 (3), 11 (8)
func TestNetChanges(t *testing.T) {
	tests := []struct{ line, want string }{
		{"net add --net tcp2 --if eth0", `AddNet {"net":"tcp2","interfaces":["eth0"]}`},
		{"net add -n tcp0 -i eth0[0,1],eth1", `AddNet {"net":"tcp","interfaces":["eth0[0,1]","eth1"]}`},
		{"net add --nid fd77::11@tcp6", `AddNet {"nid":"fd77::11@tcp6"}`},
		{"net add --net tcp --if eth0, eth1, eth2", `AddNet {"net":"tcp","interfaces":["eth0","eth1","eth2"]}`},
		{"net add --net tcp --if 'eth0[0,1], eth1'", `AddNet {"net":"tcp","interfaces":["eth0[0,1]","eth1"]}`},
		{"net add --ip2nets 'tcp(eth0)'", `AddNet {"ip2nets":"tcp(eth0)"}`},
		{"net add --ip2net 'tcp(eth0)'", `AddNet {"ip2nets":"tcp(eth0)"}`},
		{
			"net add -n tcp2 -i eth0 --peer-timeout 60 --peer-credits 16 --peer-buffer-credits 4 --credits 128 --conns-per-peer 2 --tos 104 --cpt [0] -k -a 7 -T low",
			`AddNet {"net":"tcp2","interfaces":["eth0"],"peer_timeout":60,"peer_credits":16,"peer_buffer_credits":4,"credits":128,"lnd_tunables":{"conns_per_peer":2,"tos":104},"cpt":"[0]"}`,
		},
		// An invalid number, or one out of range, counts as not given.
		{"net add -n tcp2 -i eth0 -t -1 -c 0 -b x -r -4 -m -1", `AddNet {"net":"tcp2","interfaces":["eth0"]}`},
		{"net add -n tcp2 -i eth0 -t 16777217 -c 16777217 -b 16777217 -r 16777217", `AddNet {"net":"tcp2","interfaces":["eth0"]}`},
		{
			"net add -n tcp2 -i eth0 -t 16777216 -c 16777216 -b 16777216 -r 16777216",
			`AddNet {"net":"tcp2","interfaces":["eth0"],"peer_timeout":16777216,"peer_credits":16777216,"peer_buffer_credits":16777216,"credits":16777216}`,
		},
		{"net add -n tcp2 -i eth0 -t 0 --tos -1", `AddNet {"net":"tcp2","interfaces":["eth0"],"peer_timeout":0,"lnd_tunables":{"tos":-1}}`},
		{"net del --net tcp1", "DeleteNet tcp1 [] "},
		{"net del --net tcp1 --if eth1,eth2", "DeleteNet tcp1 [eth1 eth2] "},
		{"net del --nid 10.77.0.11@tcp", "DeleteNet <0:0> [] 10.77.0.11@tcp"},
		{"net set --all --conns-per-peer 4", "SetNITunables  true <0:0> conns_per_peer=4"},
		{"net set --nid 10.77.0.11@tcp -m 0x10", "SetNITunables 10.77.0.11@tcp false <0:0> conns_per_peer=16"},
		{"net set --net tcp --conns-per-peer 2", "SetNITunables  false tcp conns_per_peer=2"},
		{"net set --net tcp --lnd-timeout 0", "SetNITunables  false tcp lnd_timeout=0"},
		{"net set --all -i tcp -m 3 -l 9 -t 5", "SetNITunables  true <0:0> conns_per_peer=3; SetNITunables  false tcp lnd_timeout=9; SetNIHealth  5"},
		{"net set --all --conns-per-peer -1 --health 5", "SetNIHealth  5"},
		{"lnet configure --all --large", "SetLNet {Configured:true All:true Large:true}"},
		{"lnet configure", "SetLNet {Configured:true All:false Large:false}"},
		{"lnet unconfigure", "SetLNet {Configured:false All:false Large:false}"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			n := cannedPeer(t, "peerA")
			got := runProgram(program{}, append([]string{"--control-socket", serve(t, n)}, words(tt.line)...)...)
			got.stderr = warnings.ReplaceAllString(got.stderr, "")
			if diff := cmp.Diff(ran{}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Error(diff)
			}
			if done := strings.Join(n.Done, "; "); done != tt.want {
				t.Errorf("done: %s\nwant: %s", done, tt.want)
			}
		})
	}
}

// Warnings of lnetd when NIs are added are printed on the terminal, and reported to programs.
//
// lnetctl 11 (11)
func TestWarningsOfNetAdd(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.AddWarnings = []string{"one", "two"}
	path := serve(t, n)
	for args, want := range map[string]ran{
		"net add --ip2net tcp5(eth0)":        {"", "lnetdctl: warning: one\nlnetdctl: warning: two\n", exitOK},
		"--json net add --ip2net tcp5(eth0)": {"", "{\"warning\":\"one\"}\n{\"warning\":\"two\"}\n", exitOK},
	} {
		got := runProgram(program{}, append([]string{"--control-socket", path}, words(args)...)...)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
}

// documentNode stores the document that it receives, and answers with the result of answer.
func documentNode(t *testing.T, answer func(r api.ConfigurationChange) (api.ConfigurationChanged, error)) (path string, last *api.ConfigurationChange) {
	t.Helper()
	n := cannedPeer(t, "peerA")
	last = &api.ConfigurationChange{}
	n.ChangeFunc = func(r api.ConfigurationChange) (api.ConfigurationChanged, error) {
		*last = r
		return answer(r)
	}
	return serve(t, n), last
}

// A document is read from a file, in whichever way it is named, or from standard input, and is used
// according to the options.
//
// lnetctl 7 (1), 7 (4)
func TestImportSendsTheDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lnet.yaml")
	if err := os.WriteFile(file, []byte("from: file"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := api.Document{Name: file, Text: "from: file"}
	fromStdin := api.Document{Name: "stdin", Text: "from: stdin"}
	tests := []struct {
		line string
		want api.ConfigurationChange
	}{
		{"import", api.ConfigurationChange{Document: fromStdin, Mode: api.ModeAdd}},
		{"import -", api.ConfigurationChange{Document: fromStdin, Mode: api.ModeAdd}},
		{"import FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeAdd}},
		{"import FILE --add", api.ConfigurationChange{Document: fromFile, Mode: api.ModeAdd}},
		{"import --old-api FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeAdd}},
		{"import -d FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeDelete}},
		{"import FILE --del", api.ConfigurationChange{Document: fromFile, Mode: api.ModeDelete}},
		{"apply FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeReplace}},
		{"apply --wait", api.ConfigurationChange{Document: fromStdin, Mode: api.ModeReplace, Wait: true}},
		{"apply -n FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeReplace, Dry: true}},
		{"plan FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeReplace, Dry: true, Wait: true}},
		{"diff --add FILE", api.ConfigurationChange{Document: fromFile, Mode: api.ModeAdd, Dry: true, Wait: true}},
		{"plan --del", api.ConfigurationChange{Document: fromStdin, Mode: api.ModeDelete, Dry: true, Wait: true}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			path, last := documentNode(t, func(api.ConfigurationChange) (done api.ConfigurationChanged, _ error) { return done, nil })
			p := program{stdin: strings.NewReader("from: stdin")}
			line := strings.Fields(strings.ReplaceAll(tt.line, "FILE", file))
			if got := runProgram(p, append(line, "--control-socket", path)...); got != (ran{}) {
				t.Errorf("%+v", got)
			}
			tt.want.Minimal = !strings.HasPrefix(tt.line, "diff") // only diff prints the configurations
			if diff := cmp.Diff(tt.want, *last); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// All errors in a document are printed, each with its place, on a pipe as on a terminal.
//
// lnetctl 2 (1), 7 (1)
func TestProblemsAreTold(t *testing.T) {
	refuse := func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
		return api.ConfigurationChanged{}, &api.Fault{
			Code: api.CodeConfigInvalid, Errno: -22, Text: "the document stdin has errors", Problems: []api.Problem{
				{File: "stdin", Line: 3, Column: 5, Key: "net[0].net tpye", Text: "invalid key 'net tpye'", Remedy: "did you mean 'net type'?"},
				{File: "stdin", Line: 9, Text: "a tab"},
			},
		}
	}
	const first, second = "stdin:3:5: net[0].net tpye: invalid key 'net tpye'; did you mean 'net type'?", "stdin:9: a tab"
	items := "-     import:\n      errno: -22\n      descr: ! \"" + first + "\"\n-     import:\n      errno: -22\n      descr: ! \"" + second + "\"\n...\n"
	for line, want := range map[string]ran{
		"import":       {"", "---\nadd:\n" + items, 234},
		"import --del": {"", "---\ndel:\n" + items, 234},
		"apply":        {"", "lnetdctl: " + first + "\nlnetdctl: " + second + "\n", 234},
		"plan":         {"", "lnetdctl: " + first + "\nlnetdctl: " + second + "\n", 234},
		"diff --add":   {"", "lnetdctl: " + first + "\nlnetdctl: " + second + "\n", 234},
	} {
		path, _ := documentNode(t, refuse)
		for _, hints := range []bool{false, true} {
			got := runProgram(program{hints: hints}, append(strings.Fields(line), "--control-socket", path)...)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Errorf("%s: %s", line, diff)
			}
		}
	}
}

// Warnings go to stderr, wherever that is. A success prints nothing.
func TestWarningsAreTold(t *testing.T) {
	path, _ := documentNode(t, func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
		return api.ConfigurationChanged{
			Commands: []string{"net add --net tcp1 --if eth1"}, Restart: []string{"port"},
			Warnings: []api.Problem{{File: "stdin", Line: 2, Text: "Ignoring unrecognized key 'x' for 'tunables'"}},
		}, nil
	})
	const warnings = "lnetdctl: warning: stdin:2: Ignoring unrecognized key 'x' for 'tunables'\nlnetdctl: warning: port: needs a restart of lnetd\n"
	for line, stdout := range map[string]string{
		"import": "", "apply": "", "plan": "lnetdctl net add --net tcp1 --if eth1\n", "apply --dry-run": "lnetdctl net add --net tcp1 --if eth1\n",
	} {
		want := ran{stdout, warnings, 0}
		if got := runProgram(program{}, append(strings.Fields(line), "--control-socket", path)...); got != want {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// A difference is printed as that of two backups, and determines the exit status.
func TestDiff(t *testing.T) {
	same := true
	path, _ := documentNode(t, func(api.ConfigurationChange) (done api.ConfigurationChanged, _ error) {
		done.Before.Globals.Values = map[string]int64{"retry_count": 2}
		done.After.Globals.Values = map[string]int64{"retry_count": 2}
		if !same {
			done.After.Globals.Values["retry_count"] = 3
		}
		return done, nil
	})
	if got := runProgram(program{}, "diff", "--control-socket", path); got != (ran{}) {
		t.Errorf("no difference: %+v", got)
	}
	same = false
	got := runProgram(program{}, "diff", "--control-socket", path)
	if got.status != exitDifferent || got.stderr != "" || !strings.Contains(got.stdout, "\n-    retry_count: 2\n+    retry_count: 3\n") {
		t.Errorf("a difference: %+v", got)
	}
}

// All blocks of a document are carried out, in its order. The exit status reports a failure at the
// end.
//
// lnetctl 7 (6)
// sanity-lnet 5 (350)
func TestImportExec(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.ErrandsFunc = func(api.Document) ([]api.Errand, error) {
		return []api.Errand{
			{Ping: &api.PingRequest{NIDs: []string{"10.77.0.99@tcp"}}},
			{Discover: &api.DiscoverRequest{NIDs: []string{"10.77.0.12@tcp"}}},
		}, nil
	}
	got := runProgram(program{}, "import", "--exec", "--control-socket", serve(t, n))
	if got.status != exitFailure || !strings.Contains(got.stdout, "failed to ping 10.77.0.99@tcp") ||
		!strings.Contains(got.stdout, "discover:\n- primary nid: 10.77.0.12@tcp\n") {
		t.Errorf("%+v", got)
	}
}

// Objects that a document describes are printed as their commands show them.
//
// lnetctl 7 (5)
func TestImportShow(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.DescribedFunc = func(api.Document) (api.Described, error) {
		return api.Described{Nets: n.NetList[1:2], Routes: []api.Route{{Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: mustNID(t, "10.77.0.12@tcp")}}}, nil
	}
	path := serve(t, n)
	want := runProgram(program{}, "net", "show", "--net", "tcp", "-v", "4", "--control-socket", path).stdout +
		"route:\n-     net: tcp9\n      gateway: 10.77.0.12@tcp\n      hop: -1\n      priority: 0\n      state: down\n      type: multi-hop\n"
	got := runProgram(program{}, "import", "--show", "--control-socket", path)
	if diff := cmp.Diff(ran{want, "", 0}, got, cmp.AllowUnexported(ran{})); diff != "" {
		t.Error(diff)
	}
}

// A level of detail in a document applies to its net, its peer, and to routes.
//
// lnetctl 7 (5)
func TestImportShowDetail(t *testing.T) {
	n := cannedPeer(t, "peerA")
	route := api.Route{Net: lnet.MakeNet(lnet.TypeTCP, 9), Gateway: mustNID(t, "10.77.0.12@tcp")}
	peer := n.PeerList[0]
	var details map[string]int64
	n.DescribedFunc = func(api.Document) (api.Described, error) {
		return api.Described{Nets: n.NetList, Peers: []api.Peer{peer}, Routes: []api.Route{route}, Details: details}, nil
	}
	path := serve(t, n)
	show := func(line string) string {
		return runProgram(program{}, append(words(line), "--control-socket", path)...).stdout
	}
	net := func(name string, level int) string {
		return strings.TrimPrefix(show(fmt.Sprintf("net show --net %s -v %d", name, level)), "net:\n")
	}
	for _, tt := range []struct {
		tcp, peer, route int64
		level            int
		routes           string
	}{
		{0, 0, 0, 0, "route:\n-     net: tcp9\n      gateway: 10.77.0.12@tcp\n"},
		{1, 1, 1, 1, "route:\n-     net: tcp9\n      gateway: 10.77.0.12@tcp\n      hop: -1\n"},
		{99, 99, 99, 4, "route:\n-     net: tcp9\n      gateway: 10.77.0.12@tcp\n      hop: -1\n"},
	} {
		details = map[string]int64{"tcp": tt.tcp, peer.Primary.String(): tt.peer, "route": tt.route}
		got := show("import --show")
		peers := show(fmt.Sprintf("peer show --nid %s -v %d", peer.Primary, tt.level))
		if !strings.Contains(got, net("tcp", tt.level)) || !strings.Contains(got, net("lo", 4)) || !strings.Contains(got, tt.routes) ||
			!strings.HasSuffix(got, peers) || strings.Contains(got, "hop:") != (tt.route > 0) {
			t.Errorf("%+v:\n%s\nwant\n%s\nand\n%s", tt, got, net("tcp", tt.level), peers)
		}
	}
}

// import --show prints "selection" rules like selection show, and the warnings of lnetd.
func TestImportShowSelection(t *testing.T) {
	n := cannedPeer(t, "peerA")
	id := 4
	net, err := lnet.ParsePattern("tcp*")
	if err != nil {
		t.Fatal(err)
	}
	n.DescribedFunc = func(api.Document) (api.Described, error) {
		return api.Described{
			Selection: []api.SelectionRule{{ID: &id, Type: "net", Net: net}},
			Warnings:  []api.Problem{{File: "a.yaml", Line: 3, Text: "ignored"}},
		}, nil
	}
	got := runProgram(program{}, "import", "--show", "--control-socket", serve(t, n))
	if !strings.HasPrefix(got.stdout, "selection:\n") || !strings.Contains(got.stdout, "type: net\n") || !strings.Contains(got.stdout, "id: 4\n") {
		t.Errorf("%s", got.stdout)
	}
	if !strings.Contains(got.stderr, "warning: a.yaml:3: ignored\n") {
		t.Errorf("%s", got.stderr)
	}
}

// An export is written to a file as a whole. Parts that cannot be read are missing there and
// reported.
//
// lnetctl 8 (1)-(2)
func TestExportToFile(t *testing.T) {
	n := cannedPeer(t, "peerA")
	path := serve(t, n)
	file := filepath.Join(t.TempDir(), "out.yaml")
	for _, option := range []string{"--backup", "--json"} {
		want := runProgram(program{}, "export", option, "--control-socket", path)
		if got := runProgram(program{}, "export", option, file, "--control-socket", path); got != (ran{}) {
			t.Errorf("%+v", got)
		}
		if b, err := os.ReadFile(file); err != nil || want.stdout == "" || string(b) != want.stdout {
			t.Errorf("%s: %v: %s", option, err, b)
		}
	}
	n.Down = true
	got := runProgram(program{}, "export", "--control-socket", path)
	if got.status != exitOK || !strings.Contains(got.stderr, newDocumentOf("show", "net", "-100", "Network is down")) || strings.Contains(got.stdout, "net:") {
		t.Errorf("%+v", got)
	}
	if got := runProgram(program{}, "export", "--control-socket", t.TempDir()+"/none"); got.status != exitFailure || strings.Count(got.stderr, "startup") != 1 {
		t.Errorf("without a daemon: %+v", got)
	}
}

// NIs that wait are named in warnings, and in JSON. If no NI of a net is up, the net is shown like
// a net that does not exist in kernels.
//
// lnetctl 4.4, 11 (12)
func TestWaitingNIsAreShown(t *testing.T) {
	n := cannedPeer(t, "peerA")
	n.WaitList = []api.WaitingNI{{Net: lnet.MakeNet(lnet.TypeTCP, 3), Interface: "eth7", Cause: "no such interface"}}
	path := serve(t, n)
	got := runProgram(program{}, "net", "show", "--control-socket", path)
	if strings.Contains(got.stdout, "eth7") || got.stderr != "lnetdctl: warning: eth7 on tcp3 is waiting: no such interface\n" || got.status != exitOK {
		t.Errorf("%+v", got)
	}
	const warning = "lnetdctl: warning: eth7 on tcp3 is waiting: no such interface\n"
	for _, c := range []struct {
		line string
		want ran
	}{
		{"net show --net tcp3", ran{"", warning + newDocumentOf("show", "net", "-3", "Network is down"), exitInvalid}},
		{"net show --net tcp3 -v 4", ran{"", warning + newDocumentOf("show", "net", "-3", "Network is down"), exitInvalid}},
		{"net show --net tcp4", ran{"", newDocumentOf("show", "net", "-3", "Network is down"), exitInvalid}},
		{"net show --net tcp3,tcp4", ran{"", newDocumentOf("show", "net", "-3", "Network is down"), exitInvalid}},
	} {
		got := runProgram(program{}, append(words(c.line), "--control-socket", path)...)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(ran{})); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
	}
	got = runProgram(program{}, "net", "show", "--net", "tcp3,tcp", "--control-socket", path)
	if !strings.HasPrefix(got.stdout, "net:\n-     net type: tcp\n") || got.stderr != warning || got.status != exitOK {
		t.Errorf("beside a net that is up: %+v", got)
	}
	got = runProgram(program{}, "net", "show", "--net", "tcp3", "--up", "--control-socket", path)
	if got.status != 156 || !strings.Contains(got.stderr, "no NI is up: eth7 on tcp3 is waiting: no such interface; ") {
		t.Errorf("--up: %+v", got)
	}
	got = runProgram(program{}, "net", "show", "--net", "tcp3", "--json", "--control-socket", path)
	if got.status != exitInvalid || !strings.Contains(got.stderr, `{"warning":"eth7 on tcp3 is waiting: no such interface"}`) ||
		!strings.Contains(got.stderr, `"code": "net-absent"`) {
		t.Errorf("as JSON: %+v", got)
	}
	got = runProgram(program{}, "export", "--control-socket", path)
	if got.stderr != "" || !strings.Contains(got.stdout, "-     net type: tcp3\n      local NI(s):\n      -     status: down\n            interfaces:\n                  0: eth7\n") {
		t.Errorf("an export: %+v", got)
	}
	got = runProgram(program{}, "net", "show", "--json", "--control-socket", path)
	if !strings.Contains(got.stdout, `"interface": "eth7"`) {
		t.Errorf("as JSON: %s", got.stdout)
	}
}
