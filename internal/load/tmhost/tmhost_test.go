package tmhost

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/transport"
)

func open(t *testing.T, c Config) *Host {
	t.Helper()
	h, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// Given a loop with each way of delivery, when work is posted and messages arrive, then work is done in
// order, callbacks are called, and after Close no work is accepted.
func TestLoop(t *testing.T) {
	for _, delivery := range []Delivery{Async, Sync, Poll} {
		t.Run(delivery.String(), func(t *testing.T) {
			h := open(t, Config{Type: "mem"})
			rounds := make(chan struct{}, 1000)
			l, err := Start(t.Context(), h.Domain, "0@lo:12345:42:7", delivery, func() { rounds <- struct{}{} })
			if err != nil {
				t.Fatal(err)
			}
			var order []int
			done := make(chan struct{})
			for k := range 100 {
				if !l.Post(func() { order = append(order, k) }) {
					t.Fatal("work is refused")
				}
			}
			l.Post(func() { close(done) })
			<-done
			for k, got := range order {
				if got != k {
					t.Fatal(order)
				}
			}
			came := make(chan error, 2)
			sendToSelf(t, h, l, came)
			for range 2 {
				if err := <-came; err != nil {
					t.Error(err)
				}
			}
			<-rounds
			if w := l.Wakeups(); w.Worked == 0 {
				t.Errorf("%+v", w)
			}
			for delivery == Sync && l.Wakeups().Blocked == 0 {
				runtime.Gosched() // it sleeps as soon as it has no work
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := l.Wakeups()
			if w := l.ResetWakeups(); w != before || l.Wakeups() != (Wakeups{}) {
				t.Errorf("reset %+v, which was %+v, to %+v", w, before, l.Wakeups())
			}
			if l.Post(func() {}) {
				t.Error("work is taken after the end")
			}
		})
	}
}

// sendToSelf sends a message from a loop's machine to itself. Both ends report to came.
func sendToSelf(t *testing.T, h *Host, l *Loop, came chan<- error) {
	t.Helper()
	heard := func(e *transport.BufferEvent) { came <- e.Err }
	callbacks := &transport.Callbacks{transport.MsgRecv: heard, transport.MsgSend: heard}
	self, err := l.TM.EndPointAt(l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Put()
	for _, q := range []transport.QueueType{transport.MsgRecv, transport.MsgSend} {
		b, err := h.Domain.Buffer(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Domain.Free(b); err != nil {
				t.Error(err)
			}
		})
		b.Callbacks, b.Queue = callbacks, q
		if q == transport.MsgRecv {
			b.MinReceiveSize, b.MaxMessages = 100, 1
		} else {
			b.EndPoint, b.Length = self, 10
		}
		if err := l.TM.Add(b); err != nil {
			t.Fatal(err)
		}
	}
}

// Given an invalid address, when a loop is started, then the error has the reason, and the host can still
// be closed.
func TestStartFails(t *testing.T) {
	for _, c := range []struct {
		address string
		want    error
	}{
		{"nowhere", syscall.EINVAL},
		{"0@lo:12345:0:1", syscall.EINVAL},
		{"10.0.0.1@tcp:12345:42:1", syscall.ENOENT},
	} {
		h := open(t, Config{Type: "mem"})
		if _, err := Start(t.Context(), h.Domain, c.address, Sync, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.address, err, c.want)
		}
	}
}

// Given two NIDs in memory, or one, when hosts are opened as a pair, then there are two hosts, or one,
// and each has its NID.
func TestPair(t *testing.T) {
	a, b, err := OpenPair(t.Context(), Config{Type: "mem"}, "10.0.0.1@tcp", "10.0.0.2@tcp")
	if err != nil {
		t.Fatal(err)
	}
	if a == b || a.NID.String() != "10.0.0.1@tcp" || b.NID.String() != "10.0.0.2@tcp" {
		t.Errorf("%s, %s", a.NID, b.NID)
	}
	if err := errors.Join(a.Close(t.Context()), b.Close(t.Context())); err != nil {
		t.Error(err)
	}
	a, b, err = OpenPair(t.Context(), Config{Type: "lnet"}, Loopback, "")
	if err != nil {
		t.Fatal(err)
	}
	if a != b || a.NID.String() != Loopback {
		t.Errorf("%s, %s", a.NID, b.NID)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Given invalid configurations, when a host is opened, then the error has the reason.
func TestOpenFails(t *testing.T) {
	for _, c := range []Config{
		{Type: "udp"}, {Type: "mem", NID: "x"}, {Type: "lnet", NID: "x"}, {Type: "lnet", NID: "1@gni"},
		{Type: "lnet", NID: "192.0.2.1@tcp", Port: 45678},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if h, err := Open(ctx, c); err == nil {
			t.Errorf("%+v: no error", c)
			_ = h.Close(ctx)
		}
		cancel()
	}
}

// Given a NID, then Toward returns an address of this host.
func TestToward(t *testing.T) {
	if got := Toward("127.0.0.3@tcp1"); !strings.HasPrefix(got, "127.0.0.") || !strings.HasSuffix(got, "@tcp1") {
		t.Errorf("%q", got)
	}
	for _, nowhere := range []string{"", "0@lo", "1@gni"} {
		if got := Toward(nowhere); got != "" {
			t.Errorf("%q: %q", nowhere, got)
		}
	}
}

// The names of ways of delivery can be parsed.
func TestDelivery(t *testing.T) {
	for _, d := range []Delivery{Async, Sync, Poll} {
		if got, err := ParseDelivery(d.String()); err != nil || got != d {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	if _, err := ParseDelivery("later"); err == nil || Delivery(9).String() != "delivery 9" {
		t.Error("what is none is one")
	}
}
