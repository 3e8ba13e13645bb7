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
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/control"
	"github.com/lnetd/lnetd/lnet"
)

// cannedNode answers as the recorded nodes did.
type cannedNode struct {
	nets  []control.Net
	pings map[string]any // by NID: the NIDs of the answer, or an error
}

func (n *cannedNode) Version() control.Version {
	return control.Version{Program: "lnetd", Version: "v1.2.3", PID: 4711}
}

func (n *cannedNode) Nets() []control.Net { return n.nets }

func (n *cannedNode) Ping(_ context.Context, to lnet.ProcessID, source lnet.NID) (control.PingResult, error) {
	switch answer := n.pings[to.NID.String()].(type) {
	case error:
		return control.PingResult{}, answer
	case []string:
		res := control.PingResult{Primary: to.NID, PID: to.PID}
		for _, s := range answer {
			nid, err := lnet.ParseNID(s)
			if err != nil {
				return res, err
			}
			res.NIDs = append(res.NIDs, nid)
		}
		return res, nil
	}
	return control.PingResult{}, errors.New("the test knows no such node: " + to.String() + " from " + source.String())
}

// serve answers for a node on a socket and returns its path.
func serve(t *testing.T, node control.Backend) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer((&control.Server{Backend: node}).Handler())
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return path
}

// cannedPeer is the recorded node called name, with its pings.
func cannedPeer(t *testing.T, name string) *cannedNode {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "nets-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var nets control.Nets
	if err := json.Unmarshal(b, &nets); err != nil {
		t.Fatal(err)
	}
	peerB := []string{"10.77.0.12@tcp", "10.78.0.12@tcp1"}
	peerA := []string{"10.77.0.11@tcp", "10.78.0.11@tcp1"}
	return &cannedNode{nets: nets.Nets, pings: map[string]any{
		"10.77.0.12@tcp":  peerB,
		"10.78.0.12@tcp1": peerB,
		"0@lo":            peerA,
		"10.77.0.11@tcp":  peerA,
		"10.77.0.99@tcp":  syscall.EHOSTUNREACH,
		"10.77.0.12@tcp5": syscall.EHOSTUNREACH,
		"10.77.0.1@tcp":   syscall.ECONNREFUSED,
		"10.99.0.1@tcp":   syscall.ENETUNREACH,
	}}
}

// recorded is one command of a recording.
type recorded struct {
	node   string // who ran it
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

// Every lnetctl command of the recordings prints the recorded bytes and ends
// with the recorded status.
func TestOutputIsLnetctls(t *testing.T) {
	files, err := filepath.Glob("testdata/captures/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		for _, r := range readRecording(t, file) {
			t.Run(filepath.Base(file)+"/"+strings.Join(r.args, "_"), func(t *testing.T) {
				var out bytes.Buffer
				p := program{
					name: "lnetctl", stdout: &out, stderr: &out,
					socket: serve(t, cannedPeer(t, r.node)),
					lookup: func(_ context.Context, host string) ([]net.IP, error) {
						return nil, &net.DNSError{Err: "no such host", Name: host}
					},
				}
				got := p.run(append([]string{"--control-socket", p.socket}, r.args...))
				if diff := cmp.Diff(r.output, out.String()); diff != "" {
					t.Errorf("output (-recorded +got):\n%s", diff)
				}
				if got != r.status {
					t.Errorf("exit status %d, recorded %d", got, r.status)
				}
			})
		}
	}
}

// answerOf is the recorded answer of a NID, parsed.
func (n *cannedNode) answerOf(t *testing.T, nid string) []lnet.NID {
	t.Helper()
	res, err := n.Ping(t.Context(), lnet.ProcessID{NID: mustNID(t, nid)}, lnet.NID{})
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
