package fabric_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/fabric"
)

// Timeouts of queue pairs.
const (
	ackTimeout = 2147483648 * time.Nanosecond
	rnrTimer   = 655360 * time.Microsecond
)

// TestPartition: messages wait, and arrive in order if the partition ends in time. Otherwise the
// connection fails at the sending end.
func TestPartition(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		b.receives(j, 11, 12)
		f.Partition(f.Host("a"), f.Host("b"), fabric.Both)
		begin := time.Now()
		a.send(i, 1, 2)
		nothing(t, b.completions)
		time.Sleep(ackTimeout + ackTimeout/2)
		f.Heal(f.Host("a"), f.Host("b"), fabric.Both)
		b.completed(11, verbs.Success)
		b.completed(12, verbs.Success)
		took(t, begin, 2*ackTimeout)
		a.completed(1, verbs.Success)
		a.completed(2, verbs.Success)

		b.receives(j, 13)
		f.Partition(f.Host("a"), f.Host("b"), fabric.Both)
		begin = time.Now()
		a.send(i, 3, 4)
		a.completed(3, verbs.RetryExceeded)
		took(t, begin, (retries+1)*ackTimeout)
		a.completed(4, verbs.Flushed)
		nothing(t, b.completions)
		nothing(t, b.events)
		if n := f.Faults().RetryExceeded; n != 1 {
			t.Errorf("%d connections failed", n)
		}
	})
}

// TestLostAcknowledgement: the message arrives, but the sender gets no acknowledgement.
func TestLostAcknowledgement(t *testing.T) {
	for name, heals := range map[string]bool{"Heals": true, "Lasts": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
				a, b := pairOf(t, f)
				i, j := connect(a, b)
				b.receives(j, 11, 12)
				f.Partition(f.Host("b"), f.Host("a"), fabric.Forward)
				begin := time.Now()
				a.send(i, 1)
				b.completed(11, verbs.Success)
				nothing(t, a.completions)
				if heals {
					f.Heal(f.Host("b"), f.Host("a"), fabric.Forward)
					a.completed(1, verbs.Success)
					took(t, begin, ackTimeout)
					return
				}
				a.completed(1, verbs.RetryExceeded)
				took(t, begin, retries*ackTimeout)
			})
		})
	}
}

// TestReceiverNotReady: a message without a posted receive is retransmitted RNRRetries times (o2iblnd
// 3.4).
func TestReceiverNotReady(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		begin := time.Now()
		a.send(i, 1)
		time.Sleep(rnrTimer / 2)
		b.receives(j, 11)
		b.completed(11, verbs.Success)
		took(t, begin, rnrTimer)
		a.completed(1, verbs.Success)

		begin = time.Now()
		a.send(i, 2, 3)
		a.completed(2, verbs.RNRExceeded)
		took(t, begin, time.Duration(param.RNRRetries)*rnrTimer)
		a.completed(3, verbs.Flushed)
		if n := f.Faults(); n.RNR != 4 || n.RNRExceeded != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestCrash: peers get no notice, and a sender gets an error. After the host is on again, it can run a
// new process.
func TestCrash(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, _ := connect(a, b)
		f.Host("b").Crash()
		b.waiters.Wait()
		nothing(t, a.events)
		a.send(i, 1)
		a.completed(1, verbs.RetryExceeded)
		dial := verbs.Dial{From: a.addr.Addr(), To: b.addr, Timeout: 5 * time.Second}
		_, err := a.ch.Dial(dial)
		must(t, err)
		a.event(verbs.EventAddrError, timedOut)
		if _, err := b.p.OpenChannel(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("the process lives: %v", err)
		}
		connect(a, start(t, f.Host("b"), addrB))
	})
}

// TestKill: all calls of a killed process fail.
func TestKill(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		_, j := connect(a, b)
		b.p.Kill()
		b.p.Kill()
		b.waiters.Wait()
		a.event(verbs.EventDisconnected, 0)
		for name, err := range map[string]error{
			"Send": b.trySend(j, 1), "Disconnect": j.Disconnect(), "Memory": b.mem.Close(), "Queue": b.cq.Close(), "Device": b.dev.Close(), "Channel": b.ch.Close(),
		} {
			if !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		j.Destroy()
		must(t, b.p.Close())
	})
}

// TestPort: processes are notified when a port goes down. Messages wait for it.
func TestPort(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		b.receives(j, 11)
		p := f.Host("b").Device(0).Port(1)
		p.SetUp(false)
		p.SetUp(false)
		if e := b.async(verbs.AsyncPortError); e.Port != 1 {
			t.Errorf("%+v", e)
		}
		if state, err := b.dev.Port(1); err != nil || state.State != verbs.PortDown {
			t.Errorf("%+v, %v", state, err)
		}
		a.send(i, 1)
		nothing(t, b.completions)
		p.SetUp(true)
		b.async(verbs.AsyncPortActive)
		b.completed(11, verbs.Success)
		p.ChangeAddress()
		for range 2 { // the listener, and the connection
			b.event(verbs.EventAddrChange, 0)
		}
		f.Host("b").Device(0).Inject(verbs.AsyncEvent{Kind: verbs.AsyncGIDChange, Port: 1})
		b.async(verbs.AsyncGIDChange)
		nothing(t, a.asyncs)
		if _, err := b.dev.Port(2); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a port that is not there: %v", err)
		}
	})
}

// TestRequestsThatFail: a link makes receives appear missing, or requests fail at the peer's device.
func TestRequestsThatFail(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		b.receives(j, 11)
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{RNR: 1})
		a.send(i, 1)
		nothing(t, b.completions)
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{})
		b.completed(11, verbs.Success)
		a.completed(1, verbs.Success)

		b.receives(j, 12)
		f.SetLink(f.Host("a"), f.Host("b"), fabric.Both, fabric.Link{Fail: 1})
		a.send(i, 2, 3)
		a.completed(2, verbs.RemoteOperation)
		a.completed(3, verbs.Flushed)
		b.completed(12, verbs.Flushed)
		if n := f.Faults(); n.RNR != 1 || n.RNRExceeded != 0 || n.Failures != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestRemoval: a device is removed with everything on it, and another one gets its address.
func TestRemoval(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		b.receives(j, 11)
		f.Host("b").Device(0).Remove()
		ids := map[verbs.ID]bool{b.listener: true, j: true}
		for range 2 {
			delete(ids, b.event(verbs.EventDeviceRemoval, 0).ID)
		}
		if len(ids) != 0 {
			t.Errorf("not told: %v", ids)
		}
		b.async(verbs.AsyncQPFatal)
		b.async(verbs.AsyncDeviceFatal)
		nothing(t, b.completions)
		if _, err := b.dev.Alloc(4096, false, verbs.AccessRead); !errors.Is(err, syscall.EIO) {
			t.Errorf("memory of a device that is gone: %v", err)
		}
		nothing(t, a.events)
		a.send(i, 1)
		a.completed(1, verbs.RetryExceeded)

		j.Destroy()
		b.listener.Destroy()
		if _, err := b.ch.Listen(b.addr, 1); !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("listening without a device: %v", err)
		}
		must(t, b.mem.Close())
		must(t, b.cq.Close())
		must(t, b.dev.Close())
		must(t, b.ch.Close())
		b.waiters.Wait()
		must(t, b.p.Close())
		f.Host("b").AddDevice(addrB)
		c := start(t, f.Host("b"), addrB)
		if c.dev.Attr().Name != "rxe1" {
			t.Errorf("the device is %s", c.dev.Attr().Name)
		}
		connect(a, c)
	})
}

// TestOverflow: when a completion queue overflows, all its queue pairs are lost.
func TestOverflow(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		small, err := b.dev.NewCQ(8, 0) // never polled
		must(t, err)
		big := b.cq
		b.cq = small
		i, j := connect(a, b)
		b.cq = big
		for k := range uint64(9) {
			b.receives(j, k)
			a.send(i, k)
		}
		if e := b.async(verbs.AsyncCQError); e.QPN != 0 {
			t.Errorf("%+v", e)
		}
		if e := b.async(verbs.AsyncQPFatal); e.QPN != j.QPN() {
			t.Errorf("%+v", e)
		}
		for k := range uint64(9) {
			a.completed(k, verbs.Success)
		}
		a.send(i, 10)
		a.completed(10, verbs.RetryExceeded)
		if n, err := small.Poll(make([]verbs.Completion, 16)); n != 8 || err != nil {
			t.Errorf("%d completions are left: %v", n, err)
		}
		if n := f.Faults().Overflows; n != 1 {
			t.Errorf("%d overflows", n)
		}
	})
}

// TestSlotsComeBackWithHarvest: Poll frees slots for requests and receives. Completion alone does not.
func TestSlotsComeBackWithHarvest(t *testing.T) {
	bubble(t, fabric.Config{}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		quiet, err := a.dev.NewCQ(256, 0)
		must(t, err)
		a.cq, quiet = quiet, a.cq
		i, j := connect(a, b)
		for k := range uint64(queueSize) {
			b.receives(j, k)
			a.send(i, k)
			b.completed(k, verbs.Success)
		}
		if err := a.trySend(i, 99); !errors.Is(err, syscall.ENOMEM) {
			t.Fatalf("no room was wanted: %v", err)
		}
		if n, err := a.cq.Poll(make([]verbs.Completion, 3)); n != 3 {
			t.Fatal(n, err)
		}
		a.send(i, 1, 2, 3)
		if err := a.trySend(i, 99); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("no room was wanted: %v", err)
		}
		_ = quiet
	})
}

// TestBreak: connections between two places fail. Operations in progress fail at once.
func TestBreak(t *testing.T) {
	bubble(t, fabric.Config{Link: fabric.Link{Latency: time.Millisecond}}, func(t *testing.T, f *fabric.Fabric) {
		a, b := pairOf(t, f)
		i, j := connect(a, b)
		a.send(i, 1)
		if n := f.Break(f.Host("a"), f.Host("b")); n != 1 {
			t.Errorf("%d connections broken", n)
		}
		a.completed(1, verbs.RetryExceeded)
		nothing(t, b.completions)
		b.send(j, 2)
		b.completed(2, verbs.RetryExceeded)
		if n := f.Break(f.Host("a"), f.Host("b")); n != 0 {
			t.Errorf("%d connections broken", n)
		}
	})
}
