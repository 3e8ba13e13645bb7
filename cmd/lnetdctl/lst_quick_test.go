package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/selftest/report"
)

// If the session of a quick test is taken over, that is reported once, and the known results are
// printed.
func TestLstQuickIsRobbed(t *testing.T) {
	n := newLstNetwork(t, "enabled: true")
	t.Setenv("LST_SESSION", "7")
	var out, errs bytes.Buffer
	pauses := 0
	p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: n.sockets["peerA"], pause: func(context.Context, time.Duration) error {
		if pauses++; pauses == 2 {
			if text, status := n.lst("peerA", "new_session", "--force", "thief"); status != 0 {
				t.Errorf("thief: %s", text)
			}
		}
		return nil
	}}
	status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --size 4K --time 1h"))
	if status != exitFailure || errs.String() != "Unmatched session key or not root\n" || strings.Count(out.String(), "\ntotal  ") != 1 {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
	if text, status := n.lst("peerA", "end_session"); status != 0 {
		t.Errorf("the thief's session: %s", text)
	}
}

// fakeLnetd answers requests with the results of answer, until the test ends.
func fakeLnetd(t *testing.T, answer func(command string, r *http.Request) (status int, body any)) (socket string) {
	t.Helper()
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	lnetd := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body) // otherwise the server does not notice when the client leaves
		r.Body = io.NopCloser(bytes.NewReader(asked))
		status, body := answer(filepath.Base(r.URL.Path), r)
		b, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = w.Write(b)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = lnetd.Serve(l)
	}()
	t.Cleanup(func() {
		_ = lnetd.Close()
		<-served
	})
	return path
}

// If quick is interrupted while its session is being created, it ends the session, because lnetd
// may have created it nevertheless.
func TestLstQuickInterruptedAtOnce(t *testing.T) {
	var mu sync.Mutex
	var commands []string
	path := fakeLnetd(t, func(command string, r *http.Request) (int, any) {
		mu.Lock()
		commands = append(commands, command)
		mu.Unlock()
		if command == "new_session" {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		}
		return http.StatusOK, struct{}{}
	})
	var out, errs bytes.Buffer
	p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: path}
	status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp"))
	if status != 128+int(syscall.SIGINT) || out.Len()+errs.Len() > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"new_session", "end_session"}; !slices.Equal(commands, want) {
		t.Errorf("commands %v, want %v", commands, want)
	}
}

// Quick ends its session when no more requests are in progress.
func TestLstQuickWaitsForRequests(t *testing.T) {
	var mu sync.Mutex
	var commands []string
	running := 3
	path := fakeLnetd(t, func(command string, _ *http.Request) (int, any) {
		mu.Lock()
		defer mu.Unlock()
		commands = append(commands, command)
		switch command {
		case "query":
			running--
			return http.StatusOK, report.QueryResult{Running: running}
		case "stat":
			return http.StatusOK, report.Sample{Targets: []report.TargetSample{{Name: "from"}, {Name: "to"}}}
		}
		return http.StatusOK, struct{}{}
	})
	var out, errs bytes.Buffer
	p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: path, pause: func(context.Context, time.Duration) error { return nil }}
	status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --time 1s"))
	mu.Lock()
	defer mu.Unlock()
	k := slices.Index(commands, "stop")
	if want := []string{"stop", "query", "query", "query", "stat", "end_session"}; k < 0 || !slices.Equal(commands[k:], want) {
		t.Errorf("status %d, stderr %q, commands %v, want %v at the end", status, errs.String(), commands, want)
	}
}

// The end of a terminal does not end quick if SIGHUP is ignored, as with nohup.
func TestLstQuickUnderNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	path := fakeLnetd(t, func(command string, _ *http.Request) (int, any) {
		if command == "new_session" {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
		}
		if command == "stat" {
			return http.StatusOK, sampleOf(true)
		}
		return http.StatusOK, struct{}{}
	})
	var out, errs bytes.Buffer
	p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: path, pause: func(context.Context, time.Duration) error {
		return errors.New("enough")
	}}
	status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --time 1h"))
	if status != exitOK || errs.Len() > 0 {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}

// sampleOf returns a sample of a client, which may have answered, and a server.
func sampleOf(answered bool) any {
	row := func(group, id string, answered bool) any {
		node := map[string]any{"id": id, "state": "Active", "success": answered}
		if !answered {
			node["rpc"] = syscall.ETIMEDOUT
		}
		return map[string]any{"name": group, "nodes": []any{node}}
	}
	return map[string]any{"targets": []any{row("from", "12345-10.77.0.11@tcp", answered), row("to", "12345-10.77.0.12@tcp", true)}}
}

// Quick never fails without a message, and never prints a message twice. A test that it has ended
// before its time is not a success.
func TestLstQuickSaysWhy(t *testing.T) {
	stopping := api.Fault{Code: api.CodeStopping, Errno: -int(syscall.ESHUTDOWN), Text: "Network is down"}
	for name, row := range map[string]struct {
		command string // that fails
		call    int    // which call of that name fails, counted from 1
		status  int
		body    any
		want    string // on stderr
	}{
		"lnetd stops": {"hold_session", 1, http.StatusServiceUnavailable, map[string]any{"error": stopping}, "Network is down\n"},
		"a group of nobody": {
			"add_group", 2, http.StatusOK, report.GroupAddition{Deleted: true}, "No node of --to joined the session\n",
		},
		"a node that is silent once": {
			"stat", 2, http.StatusOK, sampleOf(false), "RPC failure, can't show error on 12345-10.77.0.11@tcp\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			calls := map[string]int{}
			over := false
			path := fakeLnetd(t, func(command string, _ *http.Request) (int, any) {
				mu.Lock()
				defer mu.Unlock()
				calls[command]++
				if over || command == row.command && calls[command] == row.call {
					over = row.status != http.StatusOK
					return row.status, row.body
				}
				if command == "stat" {
					return http.StatusOK, sampleOf(true)
				}
				return http.StatusOK, struct{}{}
			})
			var out, errs bytes.Buffer
			p := program{name: "lnetdctl", stdout: &out, stderr: &errs, socket: path, pause: noPause}
			status := p.run(strings.Fields("lst quick --from 10.77.0.11@tcp --to 10.77.0.12@tcp --time 1h"))
			if status != exitFailure || errs.String() != row.want {
				t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
			}
		})
	}
}
