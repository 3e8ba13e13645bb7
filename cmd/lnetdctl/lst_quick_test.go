package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A quick test whose session is taken away says so once, and prints what it knows.
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

// Interrupted while its session is being made, quick ends that: lnetd may have made
// it nevertheless.
func TestLstQuickInterruptedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var commands []string
	lnetd := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the client is not seen to go
		command := filepath.Base(r.URL.Path)
		mu.Lock()
		commands = append(commands, command)
		mu.Unlock()
		if command == "new_session" {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte("{}\n"))
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = lnetd.Serve(l)
	}()
	defer func() {
		_ = lnetd.Close()
		<-served
	}()
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
