package socklnd

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// socklnd 14 (1), 15.1 (1), 15.2 (9)
func TestAMessageThatStopsArriving(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for _, cut := range []int{1, 30, protocol.V3.Overhead(), protocol.V3.Overhead() + 4000} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			n := start(t, func(c *Config) { c.SockTimeout = timeout })
			p := newPuppet(n)
			control, bulkIn, bulkOut := p.callUs()
			begin := time.Now()
			bulkOut.send(bulkOut.message(pattern(5000), nil)[:cut])
			for _, w := range []*wire{control, bulkIn, bulkOut} {
				w.ends()
			}
			if d := time.Since(begin); d < timeout {
				t.Errorf("closed after %v, T is %v", d, timeout)
			}
			if cut >= protocol.V3.Overhead() {
				if a := await(t, n.arrived, "arrival"); !errors.Is(a.err, lnd.ErrTimeout) {
					t.Errorf("arrival with %v, want a timeout", a.err)
				}
			}
			if d := await(t, n.down, "PeerDown"); !errors.Is(d.Err, lnd.ErrTimeout) {
				t.Errorf("%+v", d)
			}
			if got := n.counter("receive_timeouts_total"); got != 1 {
				t.Errorf("%d receive timeouts", got)
			}
		})
	}
}

// TestEachByteStartsTheReceiveTimerAgain checks a message that takes longer than T to arrive, and
// an idle connection that outlives T.
//
// socklnd 11 (2), 14 (1)
func TestEachByteStartsTheReceiveTimerAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const timeout = 400 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.SockTimeout = timeout })
		idle := newPuppet(n).connect(protocol.Control)
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		begin := time.Now()
		message := w.message(pattern(10), nil)
		const pieces = 5
		for k := range pieces {
			time.Sleep(timeout * 3 / 4)
			w.send(message[len(message)*k/pieces : len(message)*(k+1)/pieces])
		}
		n.arrival()
		if d := time.Since(begin); d < 2*timeout {
			t.Errorf("the message took only %v", d)
		}
		idle.put(1)
		n.arrival()
	})
}

// stuff sends to a peer that reads nothing, until the connection accepts no more.
func (n *node) stuff(p *puppet) []*sending {
	n.t.Helper()
	sent := []*sending{n.put(p.id(), 1000), n.put(p.id(), 1000)}
	payload := pattern(1 << 20) // allocated once, so that sending is quick compared with a timeout
	for range 24 {
		sent = append(sent, n.putWith(n.NID(), p.id(), payload))
	}
	return sent
}

// outcomes checks the messages of a connection that failed: first those that were sent, then at
// most one that had been started, then those that had not.
func outcomes(t *testing.T, sent []*sending, started, unstarted lnd.Status) {
	t.Helper()
	var got []lnd.Status
	counts := map[lnd.Status]int{}
	for _, s := range sent {
		status := lnd.StatusOf(await(t, s.sent, "completion"))
		got = append(got, status)
		counts[status]++
	}
	k := 0
	for k < len(got) && got[k] == lnd.StatusOK {
		k++
	}
	if k < len(got) && got[k] == started {
		k++
	}
	for _, s := range got[k:] {
		if s != unstarted {
			t.Fatalf("status %v, want some ok, one %q, and some %q", got, started, unstarted)
		}
	}
	if counts[lnd.StatusOK] == 0 || counts[unstarted] == 0 || counts[started] == 0 && started != unstarted {
		t.Errorf("status counts %v", counts)
	}
}

func smallBuffers(c *Config) { c.TxBufferSize = 128 << 10 }

// socklnd 14 (2), 15.2 (6)-(7)
func TestAPeerThatDoesNotRead(t *testing.T) {
	const timeout = time.Second
	n := start(t, func(c *Config) { smallBuffers(c); c.SockTimeout = timeout })
	p := newPuppet(n)
	p.callUs()
	begin := time.Now()
	sent := n.stuff(p)
	outcomes(t, sent, lnd.StatusLocalError, lnd.StatusLocalDropped)
	if d := time.Since(begin); d < timeout {
		t.Errorf("closed after %v, T is %v", d, timeout)
	}
	if d := await(t, n.down, "PeerDown"); !errors.Is(d.Err, lnd.ErrTimeout) {
		t.Errorf("%+v", d)
	}
	if got := n.counter("send_timeouts_total"); got != 1 {
		t.Errorf("%d send timeouts", got)
	}
}

// TestAPeerThatReadsSlowlyIsNotCutOff checks messages that take longer than T to send.
//
// socklnd 14 (2)
func TestAPeerThatReadsSlowlyIsNotCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const timeout, slices = time.Second, 8
		n := start(t, func(c *Config) { m.use(c); c.SockTimeout = timeout })
		p := newPuppet(n)
		_, bulkIn, _ := p.callUs()
		begin := time.Now()
		first, second := n.put(p.id(), 1<<20), n.put(p.id(), 1<<20)
		total := 2 * (1<<20 + protocol.V3.Overhead())
		for range slices {
			time.Sleep(timeout * 3 / 4)
			bulkIn.read(total / slices)
		}
		bulkIn.read(total % slices)
		first.done()
		second.done()
		if d := time.Since(begin); d < timeout {
			t.Errorf("the messages took only %v", d)
		}
	})
}

// TestAMessageThatWaitsForAConnectionTooLong checks the deadline of a message without a connection.
// The peer refuses the first call and never answers the second.
//
// discovery 9.8
// socklnd 14 (3), 15.2 (4)
func TestAMessageThatWaitsForAConnectionTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const timeout = 300 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.SockTimeout, c.MinReconnect, c.MaxReconnect = timeout, timeout/2, timeout })
		p := newPuppet(n).listen()
		begin := time.Now()
		s := n.put(p.id(), 10)
		p.decline()
		if err := s.fails(lnd.StatusNetworkTimeout); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("error %v, want ETIMEDOUT in it", err)
		}
		if d := time.Since(begin); d < timeout || d > timeout+timeout/8 {
			t.Errorf("failed after %v, T is %v", d, timeout)
		}
		if got := n.counter("pending_timeouts_total"); got != 1 {
			t.Errorf("%d pending timeouts", got)
		}
	})
}

// discovery 9.8
// socklnd 14 (4), 15.2 (6)-(7)
func TestAConnectionThatIsReset(t *testing.T) {
	n := start(t, smallBuffers)
	p := newPuppet(n)
	_, bulkIn, _ := p.callUs()
	sent := n.stuff(p)
	bulkIn.read(1 << 16)
	if err := bulkIn.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = bulkIn.Close()
	outcomes(t, sent, lnd.StatusLocalError, lnd.StatusLocalDropped)
}

// TestAConnectionThatTCPGivesUp: given a connection that TCP gives up because nothing was
// acknowledged for too long, then the message that was being written fails with a remote timeout,
// because it may have arrived.
//
// discovery 9.8
// socklnd 15.2 (6)-(7)
func TestAConnectionThatTCPGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		n := start(t, m.use)
		p := newPuppet(n)
		_, bulkIn, _ := p.callUs()
		sent := n.stuff(p)
		bulkIn.Conn.(memoryEnd).memoryStream.peer.giveUp(syscall.ETIMEDOUT)
		outcomes(t, sent, lnd.StatusRemoteTimeout, lnd.StatusLocalDropped)
	})
}

// socklnd 15.2 (8)
func TestCloseWithMessagesQueuedAndWaiting(t *testing.T) {
	n := start(t, smallBuffers)
	p := newPuppet(n)
	p.callUs()
	queued := n.stuff(p)
	other := newPuppet(n).listen()
	waiting := n.put(other.id(), 10)
	other.accept()
	n.stop()
	outcomes(t, queued, lnd.StatusLocalError, lnd.StatusLocalDropped)
	if err := waiting.fails(lnd.StatusRemoteDropped); !errors.Is(err, syscall.ENETDOWN) {
		t.Errorf("error %v, want ENETDOWN in it", err)
	}
	n.put(p.id(), 10).fails(lnd.StatusRemoteDropped)
	select {
	case d := <-n.down:
		t.Errorf("PeerDown %+v of a closed interface", d)
	default:
	}
}

// socklnd 15.4 (3)
func TestDisconnectWithMessagesQueuedAndWaiting(t *testing.T) {
	n := start(t, smallBuffers)
	p := newPuppet(n)
	p.callUs()
	queued := n.stuff(p)
	other := newPuppet(n).listen()
	waiting := n.put(other.id(), 10)
	other.accept()
	n.Disconnect(p.nid())
	n.Disconnect(other.nid())
	outcomes(t, queued, lnd.StatusLocalError, lnd.StatusLocalAborted)
	waiting.fails(lnd.StatusLocalAborted)
}

// socklnd 11 (1)
func TestKeepalivesAfterSilence(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const silence = 100 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.Keepalive = silence })
		old := newPuppet(n) // V2 has no keepalives
		old.version = protocol.V2
		oldEnd := old.connect(protocol.Control)

		p := newPuppet(n)
		begin := time.Now()
		control, bulkIn, bulkOut := p.callUs()
		bulkOut.acknowledged(protocol.KeepaliveCookie)
		if d := time.Since(begin); d < silence {
			t.Errorf("the NOOP came after %v", d)
		}
		alone := newPuppet(n) // has CONTROL only, so the NOOP goes there
		alone.connect(protocol.Control).acknowledged(protocol.KeepaliveCookie)

		if got := n.counter("keepalives_total"); got != 2 {
			t.Errorf("%d keepalives counted", got)
		}
		for _, id := range []*puppet{old, p} {
			n.Disconnect(id.nid())
		}
		for _, w := range []*wire{oldEnd, control, bulkIn, bulkOut} {
			w.ends() // nothing else arrives: the next keepalive is due in 10 s
		}
	})
}

// TestKeepalivesAreLeftOut checks which silent peers get no keepalives: all of them if keepalive is
// 0, otherwise those that only their connection identifies (socklnd 11).
func TestKeepalivesAreLeftOut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration
		pid   lnet.PID
		want  uint64
	}{
		{"keepalive is 0", 0, lnet.PIDLustre, 0},
		{"an unprivileged peer", time.Second, lnet.PIDUserFlag | 7, 0},
		{"any other peer", time.Second, lnet.PIDLustre, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				n := start(t, func(c *Config) { m.use(c); c.Keepalive = tt.every })
				p := newPuppet(n)
				w := p.dial()
				h := p.hello(protocol.Control)
				h.SrcPID = tt.pid
				w.send(p.request())
				w.say(h)
				w.hello()
				time.Sleep(minKeepaliveGap)
				synctest.Wait()
				if got := n.counter("keepalives_total"); got != tt.want {
					t.Errorf("%d keepalives, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestTheTimeoutFollowsLNets: an interface without its own timeout uses LNet's. If LNet
// shortens it, that also applies to messages that already wait. An interface with its own timeout
// keeps it.
//
// lnet-core 6.5 (3)
func TestTheTimeoutFollowsLNets(t *testing.T) {
	for _, own := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(own), func(t *testing.T) {
			n := start(t, func(c *Config) { c.SockTimeout = own })
			if got := n.Timeout(); own == 0 && got != defaultTimeout {
				t.Errorf("without LNet's T is %v, want %v", got, defaultTimeout)
			}
			n.lndTimeout.Store(int64(time.Hour))
			p := newPuppet(n)
			control, _, bulkOut := p.callUs()
			bulkOut.send(bulkOut.message(pattern(5000), nil)[:100])
			mute := newPuppet(n).listen()
			s := n.put(mute.id(), 10)
			mute.accept()
			if got := n.Timeout(); got != time.Hour {
				t.Errorf("T is %v, want an hour", got)
			}
			n.lndTimeout.Store(int64(300 * time.Millisecond))
			if own != 0 {
				if got := n.Timeout(); got != own {
					t.Errorf("T is %v, want its own", got)
				}
				return
			}
			if got := n.Timeout(); got != 300*time.Millisecond {
				t.Errorf("T is %v, want LNet's", got)
			}
			control.ends()
			_ = s.fails(lnd.StatusNetworkTimeout)
		})
	}
}
