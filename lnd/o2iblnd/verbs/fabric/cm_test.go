package fabric_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// How long the connection manager waits for an answer, and for all its attempts together.
const (
	cmTimeout = 4294967296 * time.Nanosecond
	cmGivesUp = 16 * cmTimeout
	timedOut  = -int32(syscall.ETIMEDOUT)
)

func took(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if diff := cmp.Diff(want.String(), time.Since(since).String()); diff != "" {
		t.Errorf("time (-want +got):\n%s", diff)
	}
}

// TestMessageBeforeEstablished: the accepting side gets messages although the peer's confirmation is
// lost. The connection is established when that side calls Established, or with a retransmission (o2iblnd
// 3.3).
func TestMessageBeforeEstablished(t *testing.T) {
	for name, notify := range map[string]bool{"Notify": true, "Repetition": false} {
		t.Run(name, func(t *testing.T) {
			good := fabric.Link{Latency: time.Millisecond}
			bad := good
			bad.CMLoss = 1
			bubble(t, fabric.Config{Link: good}, func(t *testing.T, f *fabric.Fabric) {
				a, b := pairOf(t, f)
				i := a.resolved(b)
				must(t, i.Connect(param))
				j := b.pair(b.event(verbs.EventConnectRequest, 0).ID)
				b.receives(j, 1, 2)
				accepted := time.Now()
				must(t, j.Accept(param))
				f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, bad) // after the answer was sent
				a.event(verbs.EventEstablished, 0)
				a.send(i, 1, 2)
				b.completed(1, verbs.Success)
				b.completed(2, verbs.Success)
				if e := b.async(verbs.AsyncCommEst); e.QPN != j.QPN() {
					t.Errorf("of queue pair %d, want %d", e.QPN, j.QPN())
				}
				nothing(t, b.asyncs)
				nothing(t, b.events)
				f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, good)
				if notify {
					must(t, j.Established())
				}
				b.event(verbs.EventEstablished, 0)
				if !notify {
					took(t, accepted, cmTimeout+2*time.Millisecond)
				}
				must(t, j.Established())
				nothing(t, b.events)
				if n := f.Faults().EarlyMessages; n != 2 {
					t.Errorf("%d early messages", n)
				}
			})
		})
	}
}

// TestUnreachable: requests, answers and disconnects are retransmitted, and fail in the end.
func TestUnreachable(t *testing.T) {
	silence := func(f *fabric.Fabric) {
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{CMLoss: 1})
	}
	t.Run("Request", func(t *testing.T) {
		bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
			a, b := pairOf(t, f)
			i := a.resolved(b)
			silence(f)
			begin := time.Now()
			must(t, i.Connect(param))
			a.event(verbs.EventUnreachable, timedOut)
			took(t, begin, cmGivesUp)
			nothing(t, b.events)
			if n := f.Faults().CMLosses; n != 16 {
				t.Errorf("%d lost", n)
			}
		})
	})
	t.Run("Answer", func(t *testing.T) {
		bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
			a, b := pairOf(t, f)
			i := a.resolved(b)
			must(t, i.Connect(param))
			j := b.pair(b.event(verbs.EventConnectRequest, 0).ID)
			silence(f)
			begin := time.Now()
			must(t, j.Accept(param))
			b.event(verbs.EventUnreachable, timedOut)
			took(t, begin, cmGivesUp)
			a.event(verbs.EventUnreachable, timedOut)
		})
	})
	t.Run("Disconnect", func(t *testing.T) {
		bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
			a, b := pairOf(t, f)
			i, _ := connect(a, b)
			silence(f)
			begin := time.Now()
			must(t, i.Disconnect())
			a.event(verbs.EventDisconnected, timedOut)
			took(t, begin, cmGivesUp)
			nothing(t, b.events)
		})
	})
	t.Run("PeerDoesNotDisconnect", func(t *testing.T) {
		bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
			a, b := pairOf(t, f)
			i, j := connect(a, b)
			must(t, i.Disconnect())
			b.event(verbs.EventDisconnected, 0)
			nothing(t, a.events)
			must(t, j.Disconnect())
			a.event(verbs.EventDisconnected, 0)
			must(t, i.Disconnect())
			nothing(t, a.events)
			nothing(t, b.events)
		})
	})
}

// TestLostReject: the request is retransmitted and treated as a new one.
func TestLostReject(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i := a.resolved(b)
		must(t, i.Connect(param))
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{CMLoss: 1})
		j := b.event(verbs.EventConnectRequest, 0).ID
		must(t, j.Reject([]byte("no")))
		j.Destroy()
		nothing(t, a.events)
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{})
		j = b.event(verbs.EventConnectRequest, 0).ID
		must(t, j.Reject([]byte("no")))
		if e := a.event(verbs.EventRejected, verbs.RejectConsumer); string(e.Private[:3]) != "no\x00" {
			t.Errorf("%q", e.Private[:e.PrivateLen])
		}
	})
}

// TestBothDial: requests that a Hold delays cross each other, and both can be accepted (o2iblnd 12.2).
func TestBothDial(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := a.resolved(b), b.resolved(a)
		there, back := f.Hold(f.Host("a"), f.Host("b"), fabric.Forward), f.Hold(f.Host("b"), f.Host("a"), fabric.Forward)
		must(t, i.Connect(param))
		must(t, j.Connect(param))
		nothing(t, a.events)
		if there.Waiting() != 1 || back.Waiting() != 1 {
			t.Errorf("%d and %d wait", there.Waiting(), back.Waiting())
		}
		there.Release()
		back.Release()
		k, l := a.pair(a.event(verbs.EventConnectRequest, 0).ID), b.pair(b.event(verbs.EventConnectRequest, 0).ID)
		must(t, k.Accept(param))
		must(t, l.Accept(param))
		for range 2 {
			a.event(verbs.EventEstablished, 0)
			b.event(verbs.EventEstablished, 0)
		}
	})
}

// TestStale: the connection manager still has a connection, and rejects the request for that reason.
func TestStale(t *testing.T) {
	bubble(t, fabric.Config{Link: fabric.Link{Stale: 1}}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i := a.resolved(b)
		must(t, i.Connect(param))
		a.event(verbs.EventRejected, verbs.RejectStale)
		i.Destroy()
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{})
		connect(a, b)
	})
}

// TestBacklog: requests are rejected when too many of them have not been read.
func TestBacklog(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		ch, err := b.p.OpenChannel() // without a caller of Events
		must(t, err)
		to := netip.AddrPortFrom(b.addr.Addr(), 988)
		l, err := ch.Listen(to, 3)
		must(t, err)
		b.addr = to
		var ids []verbs.ID
		for range 4 {
			i := a.resolved(b)
			must(t, i.Connect(param))
			ids = append(ids, i)
		}
		if e := a.event(verbs.EventRejected, verbs.RejectConsumer); e.ID != ids[3] {
			t.Error("another one is rejected")
		}
		nothing(t, a.events)
		l.Destroy() // and with it the waiting requests
		for range 3 {
			a.event(verbs.EventRejected, verbs.RejectConsumer)
		}
		must(t, ch.Close())
	})
}

// TestRightsAndLimits: calls that fail for lack of rights or because of limits.
func TestRightsAndLimits(t *testing.T) {
	bubble(t, fabric.Config{Device: verbs.DeviceAttr{MaxMemory: 1 << 17, MaxQP: 1}}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		if _, err := a.dev.Alloc(1<<16+1, false, verbs.AccessRead); !errors.Is(err, verbs.ErrLocked) {
			t.Errorf("too much memory: %v", err)
		}
		m, err := a.dev.Alloc(1<<16, false, verbs.AccessRead)
		must(t, err)
		must(t, m.Close())
		connect(a, b)
		i, err := a.ch.Dial(verbs.Dial{From: a.addr.Addr(), To: b.addr, Timeout: time.Second})
		must(t, err)
		a.event(verbs.EventAddrResolved, 0)
		if err := i.CreateQP(&verbs.QP{CQ: a.cq, Sends: 1, Recvs: 1, SendPieces: 1}); !verbs.Full(err) {
			t.Errorf("one queue pair too many: %v", err)
		}
		a.p.DropRights()
		if _, err := a.ch.Dial(verbs.Dial{From: a.addr.Addr(), To: b.addr, Privileged: true, Timeout: time.Second}); !errors.Is(err, syscall.EACCES) {
			t.Errorf("a privileged port: %v", err)
		}
		a.listener.Destroy()
		if _, err := a.ch.Listen(a.addr, 1); !errors.Is(err, syscall.EACCES) {
			t.Errorf("listening: %v", err)
		}
	})
}

// TestTwoProcessesAndAddresses: processes of a host share its addresses, but not its ports or memory.
func TestTwoProcessesAndAddresses(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		const other = "10.0.1.2"
		f.Host("b").Device(0).Port(1).AddAddress(other)
		c := start(t, f.Host("b"), other)
		if _, err := c.ch.Listen(b.addr, 1); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listening at the other's port: %v", err)
		}
		if c.dev.Attr().Name != b.dev.Attr().Name || c.dev == b.dev {
			t.Error("the processes do not share their device")
		}
		i, j := connect(a, c)
		c.receives(j, 1)
		_, _, err := i.Post(nil, []verbs.Request{{WRID: 7, Op: verbs.RDMAWrite, Remote: b.mem.Addr(), RKey: b.mem.RKey(), Count: 1}},
			[]verbs.Piece{{Addr: a.mem.Addr(), Len: 8, LKey: a.mem.LKey()}})
		must(t, err)
		a.completed(7, verbs.RemoteAccess)
		c.completed(1, verbs.Flushed)
		if e := c.async(verbs.AsyncQPAccessError); e.QPN != j.QPN() {
			t.Errorf("%+v", e)
		}
		nothing(t, b.asyncs)
	})
}
