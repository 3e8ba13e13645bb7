package socklnd

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/memory"
)

// hold makes the node keep messages of the given size without a placement. The test receives them
// from the channel and places them.
func (n *node) hold(size int) <-chan *arrival {
	held := make(chan *arrival, 100)
	n.onArrival(func(a *arrival) error {
		if int(a.header.PayloadLength) == size {
			held <- a
			return nil
		}
		a.place(memory.Of(make([]byte, a.header.PayloadLength)))
		return nil
	})
	return held
}

// passes waits for at least d. As a clock it uses other peers that begin a message, do not finish
// it, and are cut off after the LND timeout.
func (n *node) passes(d time.Duration) {
	n.t.Helper()
	for begin := time.Now(); time.Since(begin) < d; {
		p := newPuppet(n)
		w := p.connect(protocol.Control)
		w.send([]byte{0xc1})
		w.ends()
	}
}

// TestALatePlacementHoldsUpItsConnectionOnly: given a message without a placement, messages behind
// it on the connection wait too. The other connections of the set continue, and no timer runs,
// however long the placement takes.
//
// socklnd 13 (3)
// lnet-wire 8 (3)
func TestALatePlacementHoldsUpItsConnectionOnly(t *testing.T) {
	const timeout = 200 * time.Millisecond
	n := start(t, func(c *Config) { c.SockTimeout = timeout })
	held := n.hold(33)
	p := newPuppet(n)
	control, _, bulk := p.callUs()

	control.put(33)
	late := await(t, held, "arrival")
	control.put(44) // behind the held message
	bulk.put(5000)  // on another connection
	if a := n.arrival(); len(a.payload) != 5000 {
		t.Errorf("%d bytes came past", len(a.payload))
	}
	s := n.put(p.id(), 10)
	control.receive()
	s.done()
	n.passes(2 * timeout)
	await(t, n.down, "PeerDown of the clock")

	late.place(memory.Of(make([]byte, 33)))
	for _, size := range []int{33, 44} {
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(size)) {
			t.Errorf("%d bytes came, want %d", len(a.payload), size)
		}
	}
}

// socklnd 14 (1)
func TestAfterALatePlacementTheTimerRunsAgain(t *testing.T) {
	const timeout = 200 * time.Millisecond
	n := start(t, func(c *Config) { c.SockTimeout = timeout })
	held := n.hold(5000)
	p := newPuppet(n)
	control, _, bulk := p.callUs()
	bulk.send(bulk.message(pattern(5000), nil)[:1000])
	late := await(t, held, "arrival")
	n.passes(2 * timeout)
	begin := time.Now()
	late.place(memory.Of(make([]byte, 5000)))
	if a := await(t, n.arrived, "arrival"); lnd.StatusOf(a.err) != lnd.StatusRemoteError || !errors.Is(a.err, lnd.ErrTimeout) {
		t.Errorf("arrival with %v, want a timeout", a.err)
	}
	if d := time.Since(begin); d < timeout*8/10 {
		t.Errorf("timed out %v after the placement, want %v", d, timeout)
	}
	control.ends()
}

// discovery 9.8
func TestAPlacementForAConnectionThatIsGone(t *testing.T) {
	n := start(t, nil)
	held := n.hold(33)
	p := newPuppet(n)
	control, bulkIn, _ := p.callUs()
	control.put(33)
	late := await(t, held, "arrival")
	_ = bulkIn.Close() // the set ends while the message waits
	await(t, n.down, "PeerDown")
	late.place(memory.Of(make([]byte, 33)))
	if a := await(t, n.arrived, "arrival"); lnd.StatusOf(a.err) != lnd.StatusRemoteError {
		t.Errorf("arrival with %v, want a remote error", a.err)
	}
	// The same for a message that is dropped.
	control, bulkIn, _ = p.callUs()
	control.put(33)
	late = await(t, held, "arrival")
	_ = bulkIn.Close()
	await(t, n.down, "PeerDown")
	late.drop()
}

func TestCloseWhileAMessageWaits(t *testing.T) {
	n := start(t, nil)
	held := n.hold(33)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	w.put(33)
	late := await(t, held, "arrival")
	n.stop()
	late.place(memory.Of(make([]byte, 33)))
	if a := await(t, n.arrived, "arrival"); a.err == nil {
		t.Error("a payload that nobody read has arrived")
	}
}

func TestWhatWaitsIsAnsweredMeanwhile(t *testing.T) {
	// Given a message that is placed later, when the upcall sends another one, then that is sent
	// before the placement.
	n := start(t, nil)
	p := newPuppet(n)
	held := make(chan *arrival, 1)
	n.onArrival(func(a *arrival) error {
		n.put(p.id(), 10)
		held <- a
		return nil
	})
	w := p.connect(protocol.Control)
	n.awaitSettled(p.id())
	w.put(33)
	w.receive()
	(<-held).place(memory.Of(make([]byte, 33)))
	n.arrival()
}

func TestAPlacementThatIsTooLargeEndsTheSet(t *testing.T) {
	n := start(t, nil)
	n.onArrival(func(a *arrival) error { a.place(memory.Of(make([]byte, a.header.PayloadLength+1))); return nil })
	p := newPuppet(n)
	control, bulkIn, _ := p.callUs()
	control.put(10)
	if a := await(t, n.arrived, "arrival"); lnd.StatusOf(a.err) != lnd.StatusRemoteError {
		t.Errorf("arrival with %v", a.err)
	}
	control.ends()
	bulkIn.ends()
}

// TestAnIdleConnectionGivesItsBufferBack checks that a burst of small messages gives a connection a
// large buffer, and that the connection returns it when it is idle.
func TestAnIdleConnectionGivesItsBufferBack(t *testing.T) {
	for _, busyPoll := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprint("busy_poll ", busyPoll), func(t *testing.T) {
			n := start(t, func(c *Config) {
				c.SockTimeout = 400 * time.Millisecond // the reaper runs every 50 ms
				c.BusyPoll = busyPoll
			})
			p := newPuppet(n)
			w := p.connect(protocol.Control)
			var burst []byte
			const count = 3000
			for range count {
				burst = append(burst, w.message(pattern(100), nil)...)
			}
			held := n.hold(33)
			burst = append(burst, w.message(pattern(33), nil)...)
			w.send(burst)
			late := await(t, held, "end of the burst")
			large := func(want bool) func(*peer) bool {
				return func(p *peer) bool { return len(p.conns) == 1 && p.conns[0].large.Load() == want }
			}
			n.awaitState(p.id(), "large buffer", large(true))
			late.place(memory.Of(make([]byte, 33)))
			n.awaitState(p.id(), "small buffer", large(false))
			w.put(44)
			for range count + 1 {
				n.arrival()
			}
			if a := n.arrival(); !bytes.Equal(a.payload, pattern(44)) {
				t.Errorf("%d bytes came, want 44", len(a.payload))
			}
		})
	}
}
