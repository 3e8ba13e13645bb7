package clients

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// fewDescriptors lowers the descriptor limit of this process until the test ends.
func fewDescriptors(t *testing.T, limit uint64) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
}

// Given a client that starts TMs, or connects, until it would use descriptors that are reserved for the
// control socket, then it is refused. Other clients continue, and there is room again when something
// ends.
//
// decisions 134
func TestClientsLeaveDescriptors(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) }) // accept errors are logged
	o := w.join()
	idle := w.dial()
	fewDescriptors(t, 512)
	var held []*os.File
	free := func() {
		for _, f := range held {
			_ = f.Close()
		}
		held = nil
	}
	defer free()
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, f)
		if limit.CheckClientDescriptor(int(f.Fd())+2) != nil { // one is free below
			break
		}
	}
	start := &protocol.TMStart{NID: home, PID: lnet.PIDLustre, Portal: 34, TMID: 7, Completions: 16}
	o.refused(start, syscall.EMFILE)
	if err := idle.ask(&protocol.Hello{Lowest: 1, Highest: 1, Program: "test"}, &idle.hello); err != nil {
		t.Errorf("one that is connected: %v", err)
	}
	late := w.dial() // lnetd's end takes the free one
	if err := late.ask(&protocol.Hello{Lowest: 1, Highest: 1, Program: "test"}, &late.hello); err == nil {
		t.Error("a client took a descriptor of the reserve")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatalf("no descriptor is left: %v", err)
	}
	_ = f.Close()
	free()
	eventually(t, "there is room again", func() bool {
		_, err := o.tryStart(34, 7, 16)
		if err != nil && !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
		return err == nil
	})
}
