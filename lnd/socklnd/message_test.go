package socklnd

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/memory"
)

// callUs opens a whole set of connections from the puppet to the node.
func (p *puppet) callUs() (control, bulkIn, bulkOut *wire) {
	p.t.Helper()
	control, bulkIn, bulkOut = p.connect(protocol.Control), p.connect(protocol.BulkIn), p.connect(protocol.BulkOut)
	p.node.awaitSettled(p.id())
	return control, bulkIn, bulkOut
}

// TestSizeChoosesTheConnection checks the threshold: 1024 bytes of a whole message on the socket,
// including framing and header (socklnd 12.1).
//
// socklnd 12.1, 12.2 (1)-(2)
func TestSizeChoosesTheConnection(t *testing.T) {
	for _, test := range []struct {
		version protocol.Version
		size    int
		bulk    bool
	}{
		{protocol.V3, 0, false}, {protocol.V3, 920, false}, {protocol.V3, 927, false},
		{protocol.V3, 928, true}, {protocol.V3, 1 << 20, true},
		{protocol.V4, 0, false}, {protocol.V4, 896, false}, {protocol.V4, 903, false},
		{protocol.V4, 904, true}, {protocol.V4, 1 << 20, true},
		{protocol.V2, 927, false}, {protocol.V2, 928, true},
		{protocol.V1, 951, false}, {protocol.V1, 952, true},
	} {
		t.Run(fmt.Sprintf("%s %d", test.version, test.size), func(t *testing.T) {
			n := start(t, nil)
			p := newPuppet(n)
			p.version = test.version
			control, bulkIn, _ := p.callUs() // the peer's BULK_IN is the node's BULK_OUT
			s := n.put(p.id(), test.size)
			w := control
			if test.bulk {
				w = bulkIn
			}
			if _, _, payload := w.receive(); !bytes.Equal(payload, pattern(test.size)) {
				t.Error("another payload")
			}
			s.done()
		})
	}
}

// socklnd 12.2 (1), 12.4 (3)
func TestALargeMessageTakesControlWhereThereIsNothingElse(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	p.connect(protocol.BulkOut) // the node's BULK_IN, on which it sends nothing
	s := n.put(p.id(), 5000)
	w.receive()
	s.done()
}

// socklnd 12.4 (4), 12.4 (6)
func TestMessagesWaitForAConnectionThatTakesThem(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.connect(protocol.BulkOut)
	n.awaitSettled(p.id())
	// The node does not call a peer that has called it, and BULK_IN carries no outbound messages.
	n.put(p.id(), 10).fails(lnd.StatusRemoteError)
	w := p.connect(protocol.Control)
	s := n.put(p.id(), 10)
	w.receive()
	s.done()
}

// socklnd 12.5
func TestMessagesOnAConnectionKeepTheirOrder(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w, _, _ := p.callUs()
	const count = 2000
	var sent []*sending
	for k := range count {
		sent = append(sent, n.put(p.id(), k%900))
	}
	for k := range count {
		if _, h, _ := w.receive(); int(h.PayloadLength) != k%900 {
			t.Fatalf("message %d has %d bytes, want %d", k, h.PayloadLength, k%900)
		}
	}
	for _, s := range sent {
		s.done()
	}
	var stream []byte
	for k := range count {
		stream = append(stream, w.message(pattern(k%900), nil)...)
	}
	w.send(stream)
	for k := range count {
		if a := n.arrival(); !bytes.Equal(a.payload, pattern(k%900)) {
			t.Fatalf("arrival %d has %d bytes, want %d", k, len(a.payload), k%900)
		}
	}
}

// TestAnswersLeaveAmidABatch checks that a reader sends answers while it is still processing a
// batch of messages.
func TestAnswersLeaveAmidABatch(t *testing.T) {
	const count, early = 40, 32
	n := start(t, nil)
	p := newPuppet(n)
	control, _, _ := p.callUs()
	heard := make(chan struct{})
	answers := make(chan *sending, count)
	arrivals := 0
	n.onArrival(func(a *arrival) error {
		answers <- n.put(p.id(), 0)
		if arrivals++; arrivals == count {
			<-heard
		}
		a.drop()
		return nil
	})
	var stream []byte
	for range count {
		stream = append(stream, control.message(nil, nil)...)
	}
	control.send(stream)
	for range early {
		control.receive()
	}
	close(heard)
	for range count - early {
		control.receive()
	}
	for range count {
		await(t, answers, "an answer").done()
	}
}

func TestScatteredMemory(t *testing.T) {
	n := start(t, nil)
	n.onArrival(func(a *arrival) error {
		m := memory.Vector{Offset: 3, Length: int(a.header.PayloadLength)}
		for size := 1; len(m.Segments) < 256; size += 37 {
			m.Segments = append(m.Segments, memory.Segment{Bytes: make([]byte, size)})
		}
		a.place(m)
		return nil
	})
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	w.put(1 << 20)
	if a := n.arrival(); !bytes.Equal(a.payload, pattern(1<<20)) {
		t.Error("another payload")
	}
	payload := pattern(1 << 20)
	s := &sending{t: t, sent: make(chan error, 1)}
	s.tx = lnd.Tx{Header: putHeader(n.NID(), p.nid(), len(payload)), To: p.id(), Done: s}
	s.tx.Payload.Length = len(payload)
	for b := payload; len(b) > 0; {
		size := min(len(b), 4096+len(s.tx.Payload.Segments))
		s.tx.Payload.Segments = append(s.tx.Payload.Segments, memory.Segment{Bytes: b[:size]})
		b = b[size:]
	}
	n.Send(&s.tx)
	if _, _, got := w.receive(); !bytes.Equal(got, payload) {
		t.Error("another payload was sent")
	}
	s.done()
}

// TestTheEndOfOneConnectionEndsTheSet also checks that LastAlive is the time of the peer's last
// byte, not the time when its connections were opened or closed. The time of a byte is that of the
// first look at the connection after it arrived.
//
// socklnd 13 (5), 15.1 (1), 15.4 (1)
// lnet-core 8.4 (6)
func TestTheEndOfOneConnectionEndsTheSet(t *testing.T) {
	for k, name := range []string{"CONTROL", "BULK_IN", "BULK_OUT"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				n := start(t, m.use)
				p := newPuppet(n)
				control, bulkIn, bulkOut := p.callUs()
				set := []*wire{control, bulkIn, bulkOut}
				time.Sleep(7500 * time.Millisecond) // halfway between two looks
				control.put(1)
				n.arrival()
				alive := time.Now()
				time.Sleep(12 * time.Second)
				_ = set[k].Close()
				for _, w := range append(set[:k:k], set[k+1:]...) {
					w.ends()
				}
				d := await(t, n.down, "PeerDown")
				if d.Peer != p.nid() || !errors.Is(d.Err, lnd.ErrDisconnected) {
					t.Errorf("%+v", d)
				}
				if after := d.LastAlive.Sub(alive); after < 0 || after > n.lookInterval() {
					t.Errorf("last alive %v after its last byte, want the time of that byte", after)
				}
				if got := n.counter("closes_total"); got != 3 {
					t.Errorf("%d connections closed, want 3", got)
				}
				if got := n.counter("protocol_errors_total"); got != 0 {
					t.Errorf("an orderly end counts as %d protocol errors", got)
				}
				p.callUs() // the peer may connect again
			})
		})
	}
}

// TestTheEndInsideAMessage checks that a connection which ends inside a message is a protocol
// error. If the message has been placed already, its arrival fails.
//
// socklnd 13 (5), 15.1 (1), 15.2 (9)
func TestTheEndInsideAMessage(t *testing.T) {
	w3 := protocol.V3.Overhead()
	for _, cut := range []int{1, 24, 25, w3 - 1, w3, w3 + 10} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			n := start(t, nil)
			p := newPuppet(n)
			control, bulkIn, _ := p.callUs()
			control.send(control.message(pattern(100), nil)[:cut])
			_ = control.Close()
			bulkIn.ends()
			if cut >= w3 {
				a := await(t, n.arrived, "arrival")
				if lnd.StatusOf(a.err) != lnd.StatusRemoteError {
					t.Errorf("arrival with %v, want a remote error", a.err)
				}
			}
			if d := await(t, n.down, "PeerDown"); !errors.Is(d.Err, lnd.ErrProtocol) {
				t.Errorf("%+v", d)
			}
			if got := n.counter("protocol_errors_total"); got != 1 {
				t.Errorf("%d protocol errors", got)
			}
		})
	}
}

// socklnd 8.1 (2), 15.1 (1)
func TestGarbageEndsTheSet(t *testing.T) {
	bad := protocol.Frame{Type: 0xc5}
	refused := errors.New("payload_length 5 in ACK")
	for _, test := range []struct {
		name string
		says func(w *wire) []byte
	}{
		{"unknown frame type", func(w *wire) []byte { return bad.Append(nil, w.p.order) }},
		{"random bytes", func(*wire) []byte { return bytes.Repeat([]byte("garbage!"), 1000) }},
		{"the wrong byte order", func(w *wire) []byte {
			w.p.order = orderOpposite(w.p.order)
			return w.message(nil, nil)
		}},
		{"a message that the node refuses", func(w *wire) []byte {
			return w.message(pattern(5), func(_ *protocol.Frame, h *lnet.Header) { h.Type = lnet.MsgAck })
		}},
		{"four gigabytes", func(w *wire) []byte {
			return w.message(nil, func(_ *protocol.Frame, h *lnet.Header) { h.PayloadLength = 1<<32 - 1 })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := start(t, nil)
			n.onArrival(func(a *arrival) error {
				if err := a.header.Validate(); err != nil {
					return fmt.Errorf("%w: %w", refused, err)
				}
				t.Errorf("%+v arrived", a.header)
				return refused
			})
			p := newPuppet(n)
			control, bulkIn, bulkOut := p.callUs()
			bulkOut.send(test.says(bulkOut))
			for _, w := range []*wire{control, bulkIn, bulkOut} {
				w.ends()
			}
			if d := await(t, n.down, "PeerDown"); !errors.Is(d.Err, lnd.ErrProtocol) {
				t.Errorf("%+v", d)
			}
			if got := n.counter("protocol_errors_total"); got != 1 {
				t.Errorf("%d protocol errors", got)
			}
		})
	}
}

// lnet-wire 4.9
func TestALargeNIDDoesNotFitOnV3(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.awaitSettled(p.id())
	large, err := lnet.ParseNID("2001:db8::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	bad := n.putWith(large, p.id(), nil)
	if err := bad.fails(lnd.StatusLocalError); !errors.Is(err, lnd.ErrLargeNID) {
		t.Errorf("error %v", err)
	}
	s := n.put(p.id(), 10)
	w.receive()
	s.done()
}

// TestAnAckOutlivesItsMessage checks that an acknowledgement is sent alone if the message that it
// should go with cannot be encoded.
//
// lnet-wire 4.9
func TestAnAckOutlivesItsMessage(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	n.awaitSettled(p.id())
	large, err := lnet.ParseNID("2001:db8::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	c := n.Of(p.nid())[0].set.Load().control[0]
	takeRole(c)
	bad := n.putWith(large, p.id(), nil)
	if err := c.acknowledge(7); err != nil {
		t.Fatal(err)
	}
	c.flush()
	if f := w.frame(); f.Type != protocol.FrameNoop || f.Ack != 7 {
		t.Errorf("frame %+v", f)
	}
	if err := bad.fails(lnd.StatusLocalError); !errors.Is(err, lnd.ErrLargeNID) {
		t.Errorf("error %v", err)
	}
}

// lnet-wire 4.9
func TestALargeNIDFitsOnV4(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.version = protocol.V4
	w := p.connect(protocol.Control)
	large, err := lnet.ParseNID("2001:db8::1@tcp")
	if err != nil {
		t.Fatal(err)
	}
	s := n.putWith(large, p.id(), nil)
	if _, h, _ := w.receive(); h.Src != large {
		t.Errorf("src_nid %s", h.Src)
	}
	s.done()
}
