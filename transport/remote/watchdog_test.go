package remote

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// Given an lnetd that is stopped or never answers, when a program ends a TM, memory, or a registered
// buffer, then the connection is given up, the other TMs of the domain report the reason, and everything
// can be ended.
//
// transport 3.5 ours (3), 9.10
func TestLnetdIsSilent(t *testing.T) {
	for _, at := range []protocol.Opcode{protocol.OpTMStop, protocol.OpBufDeregister, protocol.OpAreaDel} {
		f := newFake(t, Config{Patience: 300 * time.Millisecond})
		f.answers(func(h protocol.Header, _ protocol.Request) ([]byte, bool) { return nil, h.Opcode == at })
		d := f.open()
		ending, _ := f.start(d)
		b := f.buffer(d, 1)
		var memory [][]byte
		for range 2 { // two areas, the second of which is removed
			m, err := d.Alloc(t.Context(), minAreaSize)
			if err != nil {
				t.Fatal(err)
			}
			memory = append(memory, m)
		}
		ended(t, register(t, d, memory[1][:10])) // evicted with its area
		other, _ := f.start(d)
		ends := []func() error{
			ending.Stop, b.Deregister,
			func() error { return d.Free(memory[0]) }, func() error { return d.Free(memory[1]) },
		}
		for _, end := range ends {
			if err := end(); err != nil {
				t.Errorf("silent at %v: %v", at, err)
			}
		}
		if f.count(at) != 1 {
			t.Errorf("%d of %v", f.count(at), at)
		}
		if err := reapUntilDown(t, other, syscall.ETIMEDOUT, 0); !strings.Contains(err.Error(), "not answered for 300ms") {
			t.Error(err)
		}
		if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("silent at %v, and asked again: %v", at, err)
		}
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// Any record from lnetd shows that it is alive. Then the wait continues.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := func(c *connection) error {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.failure
		}
		c := newConnection(&net.UnixConn{}, defaultPatience, nil, nil)
		w, past := c.startWatchdog(), c.startWatchdog()
		past.stop()
		time.Sleep(time.Nanosecond)
		for range 10 {
			c.recordsReceived.Add(1)
			time.Sleep(defaultPatience)
		}
		time.Sleep(defaultPatience - 2)
		if err := given(c); err != nil {
			t.Errorf("given up too early: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := given(c); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("not given up: %v", err)
		}
		w.stop()

		c = newConnection(&net.UnixConn{}, defaultPatience, nil, nil)
		c.startWatchdog().stop()
		time.Sleep(10 * defaultPatience)
		if err := given(c); err != nil {
			t.Errorf("given up though nobody waits: %v", err)
		}
	})
}
