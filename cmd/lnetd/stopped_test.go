package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// A program can end while lnetd is stopped (SIGSTOP). When lnetd continues, it notices that the
// program is gone, and frees its address.
func TestStoppedLnetd(t *testing.T) {
	dir := t.TempDir()
	control, socket := filepath.Join(dir, "c.sock"), filepath.Join(dir, "c-lnetd.sock")
	port, err := daemontest.FreePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"lnetd", "--net", "tcp(lo)", "--port", strconv.Itoa(port), "--control-socket", control}, nil, `"msg":"ready"`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	core := remote.New(remote.Config{Path: socket, Program: "first", Patience: time.Second})
	d, err := transport.NewDomain(ctx, core)
	if err != nil {
		t.Fatal(err)
	}
	const address = "127.0.0.1@tcp:12345:34:7"
	tm, err := d.Open(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Buffer(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGSTOP)
	err = tm.Shutdown(ctx)
	if ctx.Err() != nil {
		t.Errorf("the TM has not ended: %v", err)
	}
	for _, end := range []func() error{func() error { return d.Free(b) }, d.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	p.Signal(syscall.SIGCONT)
	c := client.New(control)
	defer c.Close()
	daemontest.Within(t, time.Minute, "the program is gone", func() error {
		if got := programs(t, c); len(got) > 0 {
			return fmt.Errorf("clients %q", got)
		}
		return nil
	})
	h, err := newHosted(ctx, socket, "second", address)
	if err != nil {
		t.Fatalf("the address: %v", err)
	}
	for _, end := range []func() error{func() error { return h.tm.Shutdown(ctx) }, h.domain.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
