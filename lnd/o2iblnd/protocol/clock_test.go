package protocol

import (
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// wake returns when Tick must be called next, or the zero time if that depends on another event.
func (c *Conn) wake() (at time.Time) {
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch c.state {
	case ActiveConnect:
		earlier(c.deadline)
	case Established:
		if c.o.Keepalive > 0 && c.room > 0 && c.credits.NoopDue(true) {
			earlier(c.sent.Add(c.o.Keepalive))
		}
		c.each(func(tx *Tx) bool { earlier(tx.deadline); return true })
	case Init, PassiveWait, Closing, Disconnected:
	}
	return at
}

// Renew restarts the timeout of messages in progress (o2iblnd 13.2).
//
// o2iblnd 13.2 (2)
func TestRenew(t *testing.T) {
	a, _ := newPair(t, Options{Timeout: 10 * time.Second}, V2, 8, 256)
	a.put(1, 5000, 1)
	a.now = start.Add(time.Second)
	a.immediate(2, 1)
	if at := a.c.wake(); !at.Equal(start.Add(10 * time.Second)) {
		t.Errorf("wakes at %v", at)
	}
	a.c.Renew(start.Add(5 * time.Second))
	a.c.Tick(start.Add(14*time.Second), &a.b)
	if a.b.Disconnect {
		t.Error("too early")
	}
	if at := a.c.wake(); !at.Equal(start.Add(15 * time.Second)) {
		t.Errorf("wakes at %v", at)
	}
	a.c.Tick(start.Add(15*time.Second), &a.b)
	if !a.b.Disconnect {
		t.Error("too late")
	}
	a, _ = newPair(t, Options{}, V2, 8, 256)
	a.c.SetTimeout(5 * time.Second)
	a.put(1, 5000, 1)
	a.c.Tick(start.Add(5*time.Second), &a.b)
	if !a.b.Disconnect {
		t.Error("the old timeout")
	}
	a, _ = newPair(t, Options{}, V2, 8, 256)
	a.c.SetTimeout(0)
	a.put(1, 5000, 1)
	if at := a.c.wake(); !at.Equal(start.Add(defaultTimeout)) {
		t.Errorf("wakes at %v", at)
	}
}

// A probe is a NOOP, and counts toward the maximum number of NOOPs in progress.
//
// o2iblnd 9.5 (3)
func TestProbe(t *testing.T) {
	a, b := newPair(t, Options{}, V2, 8, 256)
	a.now = start.Add(time.Second)
	for range 3 {
		if !a.c.Probe(a.now, &a.b) {
			t.Error("no connection")
		}
	}
	a.carry()
	if len(a.wire) != noopBuffers {
		t.Errorf("%d NOOPs", len(a.wire))
	}
	// Nothing is due while no NOOP may be sent.
	if at := a.c.wake(); !at.IsZero() {
		t.Errorf("wakes at %v", at)
	}
	settleInOrder(a, b)
	if !a.c.Alive().Equal(a.now) || a.c.wake().IsZero() {
		t.Errorf("alive at %v", a.c.Alive())
	}
	a.c.Close(CMDisconnected.Failure(), &a.b)
	if a.c.Probe(a.now, &a.b) {
		t.Error("a connection")
	}
}

// The sizes of the LNet header and of our messages are consistent (o2iblnd 4, 5).
//
// o2iblnd 4 (4), 5.9 (1), 9.3 (1)
func TestSizes(t *testing.T) {
	if lnetSize != lnet.HeaderNID4Size {
		t.Error("LNet header")
	}
	for typ, want := range map[Type]int{
		ConnReq: 56, ConnAck: 56, Noop: 48, Immediate: 120, PutReq: 128, PutNak: 60, PutAck: 72, PutDone: 60, GetReq: 136, GetDone: 60,
	} {
		if got := typ.size(); got != want {
			t.Errorf("%v: %d bytes, want %d", typ, got, want)
		}
		for v, credit := range map[Version]bool{
			V1: typ == Noop || typ == Immediate || typ == PutReq || typ == GetReq, V2: typ == Immediate || typ == PutReq || typ == GetReq,
		} {
			if typ.Credit(v) != credit {
				t.Errorf("%v in %v: credit %v", typ, v, !credit)
			}
		}
	}
}
