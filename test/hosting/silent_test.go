package hosting

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// Given an lnetd that is stopped while a TM has queued buffers, then the deadline of one buffer
// ends it, and shutdown of the TM returns, by the client's own clock.
//
// transport 3.5 ours (3), 9.10
func TestLnetdIsStopped(t *testing.T) {
	d := launch(t, settings{host: 1})
	domain, err := transport.NewDomain(t.Context(), remote.New(remote.Config{Path: d.socket, Program: "silent", Patience: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := domain.Open(t.Context(), d.nid+":12345:34:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	callbacks := &transport.Callbacks{transport.MsgRecv: func(e *transport.BufferEvent) { ended <- e.Err }}
	for _, deadline := range []time.Time{{}, time.Now().Add(3 * time.Second)} {
		b, err := domain.Buffer(t.Context(), messageSize)
		if err != nil {
			t.Fatal(err)
		}
		b.Queue, b.Callbacks, b.MinReceiveSize, b.MaxMessages, b.Deadline = transport.MsgRecv, callbacks, messageSize, 1, deadline
		if err := tm.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Signal(syscall.SIGCONT) })
	next := func() error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Fatal("a buffer has not ended")
			return nil
		}
	}
	if err := next(); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("the buffer with a deadline ended with %v", err)
	}
	down := make(chan error, 1)
	go func() { down <- tm.Shutdown(t.Context()) }()
	select {
	case err := <-down:
		t.Logf("shut down: %v", err)
	case <-time.After(patience):
		t.Fatal("the TM is not shut down")
	}
	if err := next(); err == nil {
		t.Error("the buffer without a deadline ended without an error")
	}
}
