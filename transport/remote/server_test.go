package remote_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/clients"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/mem"
	"github.com/lnetd/lnetd/transport/remote"
)

// The end of lnetd from a program's point of view. An announced end is a diagnostic. Each buffer is
// cancelled, and then the TM fails with EPIPE and lnetd's reason. The domain can be closed, and lnetd has
// nothing left to clean up. A new domain works with the next lnetd.
//
// transport 3.5 ours (3), 9.10
func TestShutdownSeenByAProgram(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(t *testing.T, s *clients.Server)
		words string
		told  bool
	}{
		"Drop": {end: func(t *testing.T, s *clients.Server) {
			if err := s.Drop(s.Clients()[0].ID); err != nil {
				t.Error(err)
			}
		}, words: "disconnected this program"},
		"Close": {end: func(t *testing.T, s *clients.Server) {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}, words: "lnetd", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			host := mem.New(mem.Config{}).Host()
			server, core := serve(t, host, clients.Config{Farewell: time.Millisecond}, remote.Config{Program: "player"})
			d, tm, seen := program(t, core)
			if all := server.Clients(); len(all) != 1 || all[0].Program != "player" || len(all[0].TMs) != 1 {
				t.Errorf("lnetd has %+v", all)
			}
			b, err := d.Buffer(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			cancelled := make(chan error, 1)
			b.Callbacks = &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) { cancelled <- e.Err }}
			b.Queue, b.MinReceiveSize, b.MaxMessages = transport.MsgRecv, 100, 1
			if err := tm.Add(b); err != nil {
				t.Fatal(err)
			}
			c.end(t, server)
			if err := <-cancelled; !errors.Is(err, syscall.ECANCELED) {
				t.Errorf("the buffer: %v", err)
			}
			err = tm.Await(t.Context(), transport.StateStopped)
			if !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("the TM: %v", err)
			}
			for _, end := range []func() error{tm.Close, func() error { return d.Free(b) }, d.Close} {
				if err := end(); err != nil {
					t.Error(err)
				}
			}
			if told := slices.ContainsFunc(*seen, func(x any) bool { _, ok := x.(remote.GoingDown); return ok }); told != c.told {
				t.Errorf("diagnostics %v", *seen)
			}
			if err := server.Close(t.Context()); err != nil { // after it has cleaned up
				t.Error(err)
			}
			_, next := serve(t, host, clients.Config{}, remote.Config{})
			d, tm, _ = program(t, next)
			if err := errors.Join(tm.Shutdown(t.Context()), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A program that closes its domain leaves nothing to lnetd, which logs nothing about it, even if the
// program used several areas, and TMs and buffers that were released.
//
// transport-tests P (121)
func TestServerReleasesEverything(t *testing.T) {
	var lines bytes.Buffer
	server, core := serve(t, mem.New(mem.Config{}).Host(), clients.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))}, remote.Config{})
	d, tm, _ := program(t, core)
	var all []*transport.Buffer
	for _, n := range []int{100, 1 << 20, 1 << 20} {
		b, err := d.Buffer(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if c := server.Clients(); len(c) != 1 || c[0].Areas < 2 {
		t.Errorf("lnetd has %+v", c)
	}
	if err := tm.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, b := range all {
		if err := d.Free(b); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for len(server.Clients()) > 0 {
		runtime.Gosched() // lnetd cleans up
	}
	if err := server.Close(t.Context()); err != nil { // nothing is logged afterwards
		t.Error(err)
	}
	if lines.Len() > 0 {
		t.Errorf("lnetd says: %s", &lines)
	}
}

// program opens a domain, and a TM that records diagnostics. The caller may read them after the TM has
// ended.
func program(t *testing.T, core *remote.Core) (*transport.Domain, *transport.TransferMachine, *[]any) {
	t.Helper()
	d, err := transport.NewDomain(t.Context(), core)
	if err != nil {
		t.Fatal(err)
	}
	seen := new([]any)
	at := transport.Address{NID: lnet.LoopbackNID, PID: lnet.PIDLustre, Portal: 34, TMID: 5}
	tm, err := d.Open(t.Context(), at.String(), func(e *transport.TMEvent) {
		if e.Type == transport.TMDiagnostic {
			*seen = append(*seen, e.Diagnostic)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, tm, seen
}
