package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// systemd creates the socket for clients, and lnetd uses it. A client that connects before lnetd
// runs is hosted as soon as it does. The socket outlives lnetd, so that the next lnetd uses it.
func TestSocketActivation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	passed, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = passed.Close() }()
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	const address = "127.0.0.1@tcp:12345:34:7"
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		type result struct {
			h   *hosted
			err error
		}
		early := make(chan result, 1)
		go func() {
			h, err := newHosted(ctx, path, "early", address)
			early <- result{h, err}
		}()
		// LISTEN_PID is the number of the process that becomes lnetd.
		command := []string{
			"sh", "-c", `LISTEN_PID=$$ exec lnetd "$@"`, "sh", "--net", "tcp(lo)", "--port", strconv.Itoa(port),
			"--control-socket", filepath.Join(dir, "c.sock"),
		}
		p := start(t, command, []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=clients"}, `"msg":"ready"`, passed)
		r := <-early
		if r.err != nil {
			t.Fatal(r.err)
		}
		if err := r.h.tm.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := r.h.domain.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		p.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			t.Errorf("lnetd: %v", err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("systemd's socket: %v", err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "c-lnetd.sock")); err == nil {
			t.Error("lnetd has made a socket besides")
		}
	}
}
