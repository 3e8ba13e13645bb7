package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/internal/testing/controltest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/lnet"
)

// serve answers for a node on a socket and returns its path.
func serve(t *testing.T, node server.Backend) string {
	t.Helper()
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer((&server.Server{Backend: node}).Handler())
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return path
}

// cannedNode is a node that answers as the recorded nodes did.
type cannedNode struct {
	controltest.Daemon
	answers map[string]any // by NID: the NIDs of a ping's answer, or an error
}

func newCannedNode() *cannedNode {
	n := &cannedNode{Daemon: controltest.Daemon{Is: api.Version{Program: "lnetd", Version: "v1.2.3", PID: 4711}}}
	n.PingFunc = n.ping
	n.DiscoverFunc = n.discover
	return n
}

func (n *cannedNode) ping(_ context.Context, to lnet.ProcessID, source lnet.NID) (api.PingResult, error) {
	switch answer := n.answers[to.NID.String()].(type) {
	case error:
		return api.PingResult{}, answer
	case []string:
		res := api.PingResult{Primary: to.NID, PID: to.PID}
		for _, s := range answer {
			nid, err := lnet.ParseNID(s)
			if err != nil {
				return res, err
			}
			res.NIDs = append(res.NIDs, nid)
		}
		return res, nil
	}
	return api.PingResult{}, errors.New("the test knows no such node: " + to.String() + " from " + source.String())
}

// discover returns what the recorded node had found: the peer that has the NID, or for 0@lo the
// node's own entry, if the node was ever reached.
func (n *cannedNode) discover(_ context.Context, nid lnet.NID, _ bool) (api.Peer, error) {
	if err, ok := n.answers[nid.String()].(error); ok {
		return api.Peer{}, err
	}
	p, ok := n.Peer(nid)
	if !ok {
		return p, errors.New("the test knows no such peer: " + nid.String())
	}
	return p, nil
}

// readTestdata reads a JSON file.
func readTestdata(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(name, err)
	}
}

// cannedPeer returns the recorded node called name, with its pings.
func cannedPeer(t testing.TB, name string) *cannedNode {
	t.Helper()
	n := newCannedNode()
	var nets api.Nets
	readTestdata(t, "nets-"+name+".json", &nets)
	n.NetList = nets.Nets
	var peers api.Peers
	readTestdata(t, "peers-"+name+".json", &peers)
	n.PeerList = peers.Peers
	readTestdata(t, "stats-"+name+".json", &n.Totals)
	readTestdata(t, "globals-"+name+".json", &n.Values)
	peerB := []string{"10.77.0.12@tcp", "10.78.0.12@tcp1"}
	peerA := []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}
	n.answers = map[string]any{
		"10.77.0.12@tcp":  peerB,
		"10.78.0.12@tcp1": peerB,
		"0@lo":            peerA,
		"10.77.0.11@tcp":  peerA,
		"10.77.0.98@tcp":  syscall.EHOSTUNREACH,
		"10.77.0.99@tcp":  syscall.EHOSTUNREACH,
		"10.77.0.12@tcp5": syscall.EHOSTUNREACH,
		"10.77.0.1@tcp":   syscall.ECONNREFUSED,
		"10.99.0.1@tcp":   syscall.ENETUNREACH,
	}
	return n
}

// given are the commands that had configured the recorded nodes before a recording begins. The
// routes were not up yet.
var given = map[string][]string{
	"27-route-show-peerA.txt":    {"route add --net tcp9 --gateway 10.77.0.12@tcp --hop 1"},
	"27-route-show-peerB.txt":    {"route add --net tcp9 --gateway 10.77.0.11@tcp --hop 1"},
	"28-udsp-show-peerA.txt":     recordedPolicies,
	"20-export-peerA.txt":        recordedRoutesAndPolicies("10.77.0.12@tcp"),
	"20-export-peerB.txt":        recordedRoutesAndPolicies("10.77.0.11@tcp"),
	"21-export-backup-peerA.txt": recordedRoutesAndPolicies("10.77.0.12@tcp"),
	"21-export-backup-peerB.txt": recordedRoutesAndPolicies("10.77.0.11@tcp"),
	"28-udsp-show-peerB.txt":     recordedPolicies,
}

func recordedRoutesAndPolicies(gateway string) []string {
	return append([]string{"route add --net tcp9 --gateway " + gateway + " --hop 1"}, recordedPolicies...)
}

var recordedPolicies = []string{
	"udsp add --src tcp --priority 0",
	"udsp add --src tcp --dst 10.78.0.12@tcp1",
	"udsp add --src 10.78.0.*@tcp1 --priority 1",
	"udsp add --src 10.77.0.[11-12]@tcp --dst 10.77.0.[1-100/2]@tcp",
	"udsp add --dst 10.77.0.12@tcp --rte 10.77.0.20@tcp",
}

// recorded is one command of a recording.
type recorded struct {
	node   string // the node that ran it
	args   []string
	output string // stdout and stderr
	status int
}

// readRecording returns the lnetctl commands of a recording.
func readRecording(t *testing.T, path string) []recorded {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for _, block := range strings.Split(string(b), "\n\n") {
		head, rest, ok := strings.Cut(block, "\n")
		node, command, ok2 := strings.Cut(head, "# ")
		if !ok || !ok2 || !strings.HasPrefix(command, "lnetctl ") {
			continue
		}
		i := strings.LastIndex(rest, "### exit status ")
		if i < 0 {
			t.Fatalf("%s: no exit status after %q", path, command)
		}
		status, err := strconv.Atoi(strings.TrimSpace(rest[i+len("### exit status "):]))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recorded{node: node, args: strings.Fields(command)[1:], output: rest[:i], status: status})
	}
	if len(all) == 0 {
		t.Fatalf("%s: no commands", path)
	}
	return all
}

// warnings are about values that lnetctl silently ignores.
var warnings = regexp.MustCompile(`(?m)^lnet(d)?ctl: warning: .*\n`)

// Every lnetctl command of the recordings prints the recorded bytes, apart from warnings, and has
// the recorded exit status. Where it fails without a message, ours prints the reason. The commands
// of one recording depend on each other.
//
// lnetctl 1 (9)-(10), 2 (1)-(2), 2 (4), 4.4, 4.12 (1), 4.13, 5, 5.1, 5.2, 5.3, 5.4, 5.5
// lnetctl 5.6, 5.8, 5.9, 8 (1)-(2)
func TestOutputIsLnetctls(t *testing.T) {
	files, err := filepath.Glob("testdata/captures/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			nodes := map[string]*recordedNode{}
			for _, r := range readRecording(t, file) {
				n := nodes[r.node]
				if n == nil {
					n = newRecordedNode(t, r.node, filepath.Base(file))
					nodes[r.node] = n
				}
				t.Run(strings.Join(r.args, "_"), func(t *testing.T) {
					got, status := n.run(r.args)
					if r.args[0] == "export" && len(r.args) == 1 {
						// It was recorded shortly after the node's configuration.
						got, r.output = counters.ReplaceAllString(got, "$1 N"), counters.ReplaceAllString(r.output, "$1 N")
					}
					if r.output == "" && r.status != exitOK {
						if got == "" {
							t.Error("an error is silent")
						}
					} else if diff := cmp.Diff(r.output, warnings.ReplaceAllString(got, "")); diff != "" {
						t.Errorf("output (-recorded +got):\n%s", diff)
					}
					if status != r.status {
						t.Errorf("exit status %d, recorded %d", status, r.status)
					}
				})
			}
		})
	}
}

// counters are the values of an export that increase.
var counters = regexp.MustCompile(`(?m)((?:_count|_nsec|_samples|put|get|reply|ack|refcount|ping_count|min_tx_credits):) -?\d+$`)

// recordedNode is a recorded node that executes commands.
type recordedNode struct{ socket string }

func newRecordedNode(t *testing.T, name, file string) *recordedNode {
	t.Helper()
	canned := cannedPeer(t, name)
	n := &recordedNode{socket: serve(t, canned)}
	for _, command := range given[file] {
		if out, status := n.run(strings.Fields(command)); status != exitOK {
			t.Fatalf("%s: status %d\n%s", command, status, out)
		}
	}
	for k := range canned.RouteList {
		canned.RouteList[k].Up = false
	}
	return n
}

// run returns the output and the exit status of a run of lnetctl.
func (n *recordedNode) run(args []string) (string, int) {
	var out bytes.Buffer
	p := program{
		name: "lnetctl", stdout: &out, stderr: &out,
		lookup: func(_ context.Context, host string) ([]net.IP, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host}
		},
	}
	status := p.run(append([]string{"--control-socket", n.socket}, args...))
	return out.String(), status
}

// answerOf returns the recorded answer of a NID.
func (n *cannedNode) answerOf(t *testing.T, nid string) []lnet.NID {
	t.Helper()
	res, err := n.ping(t.Context(), lnet.ProcessID{NID: mustNID(t, nid)}, lnet.NID{})
	if err != nil {
		t.Fatal(err)
	}
	return res.NIDs
}

func mustNID(t *testing.T, s string) lnet.NID {
	t.Helper()
	nid, err := lnet.ParseNID(s)
	if err != nil {
		t.Fatal(err)
	}
	return nid
}
