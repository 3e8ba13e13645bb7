package socklnd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

var equalNIDs = cmp.Comparer(func(a, b lnet.NID) bool { return a == b })

// socklnd 1 (1), 4.5 (2), 5.3 (8), 15.2 (1), 20.1
func TestEveryVersionIsAnsweredAndCarriesMessages(t *testing.T) {
	for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
		for v := protocol.V1; v <= protocol.V4; v++ {
			t.Run(fmt.Sprintf("%s %s", v, order), func(t *testing.T) {
				n := start(t, nil)
				p := newPuppet(n)
				p.version, p.order = v, order
				w := p.call(protocol.Control)
				want := protocol.Hello{
					Version: v, Src: n.NID(), Dst: p.nid(), SrcPID: lnet.PIDLustre,
					SrcIncarnation: n.incarnation, Type: protocol.Control,
				}
				if v == protocol.V1 {
					want.Dst = lnet.NID{} // a V1 HELLO carries no destination NID
				}
				if diff := cmp.Diff(want, w.hello(), equalNIDs); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				for _, size := range []int{0, 10, 5000, 1 << 20} {
					w.put(size)
					a := n.arrival()
					if a.from != p.id() || !bytes.Equal(a.payload, pattern(size)) {
						t.Errorf("%d bytes arrived from %s, want %d", len(a.payload), a.from, size)
					}
					if diff := cmp.Diff(putHeader(p.nid(), n.NID(), size), a.header, equalNIDs); diff != "" {
						t.Error(diff)
					}
					s := n.put(p.id(), size)
					f, h, payload := w.receive()
					if f.Checksum != 0 || f.Request != 0 || f.Ack != 0 {
						t.Errorf("frame %+v, want zeros", f)
					}
					if diff := cmp.Diff(s.tx.Header, h, equalNIDs); diff != "" || !bytes.Equal(payload, pattern(size)) {
						t.Errorf("%d bytes received: %s", len(payload), diff)
					}
					s.done()
				}
			})
		}
	}
}

func TestTheAnswerRepeatsWhatTheHelloSaysOfUs(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.dial()
	h := p.hello(protocol.BulkIn)
	h.DstPID, h.DstIncarnation = 77, 88
	w.send(p.request())
	w.say(h)
	if got := w.hello(); got.Type != protocol.BulkOut || got.DstPID != 77 || got.DstIncarnation != 88 {
		t.Errorf("answer %+v", got)
	}
}

// TestStrangersAtTheAcceptor checks the answer to each kind of invalid introduction.
//
// socklnd 5.1 (1)-(3), 5.3 (1)
// lnet-wire 2.7 (2), 5.4 (4)-(5), 5.4 (7)
func TestStrangersAtTheAcceptor(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	le, be := binary.LittleEndian, binary.BigEndian
	refusal := lnet.AppendAcceptorRefusal(nil, le)
	none, err := (&protocol.Hello{
		Version: protocol.V3, Src: n.NID(), Dst: n.NID(), SrcPID: lnet.PIDLustre,
		SrcIncarnation: n.incarnation, Type: protocol.None,
	}).Append(nil, le)
	if err != nil {
		t.Fatal(err)
	}
	stranger := lnet.AcceptorRequest{NID: p.nid()}.Append(nil, le)
	other := lnet.AcceptorRequest{NID: lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, 7), n.Address)}.Append(nil, le)
	loopback := lnet.AcceptorRequest{NID: lnet.LoopbackNID}.Append(nil, le)
	hello := func(edit func(*protocol.Hello)) []byte {
		h := p.hello(protocol.Control)
		edit(&h)
		b, err := h.Append(nil, le)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	with := func(b []byte) []byte { return append(p.request(), b...) }
	for _, test := range []struct {
		name string
		says []byte
		want []byte
	}{
		{"acceptor version 9", le.AppendUint32(le.AppendUint32(nil, lnet.MagicAcceptor), 9), refusal},
		{"acceptor version 9, big-endian", be.AppendUint32(be.AppendUint32(nil, lnet.MagicAcceptor), 9), refusal},
		{"unified protocol query", le.AppendUint32(nil, lnet.MagicProto), refusal},
		{"unified protocol query, big-endian", be.AppendUint32(nil, lnet.MagicProto), refusal},
		{"very old socknal", le.AppendUint32(nil, lnet.MagicTCP), nil},
		{"unknown magic", []byte("SSH-2.0-x\r\n"), nil},
		{"a NID that is not ours", append(stranger, hello(func(*protocol.Hello) {})...), nil},
		{"our address on another net", other, nil},
		{"0@lo", append(loopback, hello(func(*protocol.Hello) {})...), nil},
		{"hello of version 5", with(le.AppendUint32(le.AppendUint32(nil, lnet.MagicProto), 5)), none},
		{"hello of version 0", with(le.AppendUint32(le.AppendUint32(nil, lnet.MagicProto), 0)), none},
		{"hello of version 5, big-endian", with(be.AppendUint32(be.AppendUint32(nil, lnet.MagicProto), 5)), none},
		{"hello of version 1.1", with(le.AppendUint32(le.AppendUint32(nil, lnet.MagicTCP), 0x10001)), none},
		{"hello with an unknown magic", with([]byte("GET / HTTP/1.1")), nil},
		{"hello of type NONE", with(hello(func(h *protocol.Hello) { h.Type = protocol.None })), nil},
		{"hello of type 4", with(hello(func(h *protocol.Hello) { h.Type = 4 })), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newPuppet(n).dial()
			w.t = t
			w.send(test.says)
			if got := w.read(len(test.want)); !bytes.Equal(got, test.want) {
				t.Errorf("answer\n% x\nwant\n% x", got, test.want)
			}
			w.ends()
		})
	}
	if got := n.counter("connections"); got != 0 {
		t.Errorf("%d connections stand", got)
	}
	w := p.connect(protocol.Control)
	w.put(1)
	n.arrival()
}

// lnet-wire 5.2 (2), 5.4 (6)
func TestRequestOfVersion2ReachesA4ByteNID(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.dial()
	w.send(lnet.AcceptorRequest{Version: 2, NID: n.NID()}.Append(nil, binary.BigEndian))
	w.say(p.hello(protocol.Control))
	if h := w.hello(); h.Type != protocol.Control {
		t.Errorf("answer %+v", h)
	}
}

// socklnd 3 (3)
// lnet-wire 5.4 (3)
func TestSlowStrangersAreCutOff(t *testing.T) {
	const accept = 300 * time.Millisecond
	hello := func(p *puppet) []byte {
		h := p.hello(protocol.Control)
		b, err := h.Append(p.request(), p.order)
		if err != nil {
			p.t.Fatal(err)
		}
		return b
	}
	for _, test := range []struct {
		name string
		says func(p *puppet) []byte
	}{
		{"nothing", func(*puppet) []byte { return nil }},
		{"half a request", func(p *puppet) []byte { return p.request()[:9] }},
		{"a request", func(p *puppet) []byte { return p.request() }},
		{"all but a byte", func(p *puppet) []byte { b := hello(p); return b[:len(b)-1] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *memoryNetwork) {
				n := start(t, func(c *Config) { m.use(c); c.AcceptTimeout = accept })
				p := newPuppet(n)
				begin := time.Now()
				w := p.dial()
				w.send(test.says(p))
				w.ends()
				if d := time.Since(begin); d != accept {
					t.Errorf("cut off after %v, the bound is %v", d, accept)
				}
			})
		})
	}
}

// TestTheBoundHoldsForAllBytesTogether checks that AcceptTimeout limits the whole introduction: a
// caller that sends single bytes gets no extra time.
//
// socklnd 3 (3)
func TestTheBoundHoldsForAllBytesTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, m *memoryNetwork) {
		const accept = 400 * time.Millisecond
		n := start(t, func(c *Config) { m.use(c); c.AcceptTimeout = accept })
		p := newPuppet(n)
		begin := time.Now()
		w := p.dial()
		tick := time.NewTicker(accept / 8)
		defer tick.Stop()
		said := 0
		for range tick.C {
			synctest.Wait() // the node has processed the previous byte
			if _, err := w.Write(p.request()[said : said+1]); err != nil {
				break
			}
			if said++; said == len(p.request()) {
				t.Fatalf("%d bytes were taken over %v, the bound is %v", said, time.Since(begin), accept)
			}
		}
		if d := time.Since(begin); d != accept {
			t.Errorf("cut off after %v, the bound is %v", d, accept)
		}
	})
}

// socklnd 5.3 (7)
func TestADuplicateIsRefusedTwiceAndThenNotAnswered(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	w := p.connect(protocol.Control)
	for range 2 {
		p.refused(protocol.Control)
	}
	for range 3 {
		p.call(protocol.Control).ends()
	}
	// A connection of another type is accepted, and resets the count of refusals.
	p.connect(protocol.BulkIn)
	p.refused(protocol.Control)
	w.put(10)
	n.arrival()
}

// socklnd 2.2 (4)
func TestAPeerMayOpenManyBulkConnections(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	p.connect(protocol.Control)
	for range 127 {
		p.connect(protocol.BulkIn)
		p.connect(protocol.BulkOut)
	}
	if got := n.counter("connections"); got != 255 {
		t.Errorf("%d connections stand, want 255", got)
	}
	p.refused(protocol.BulkIn)
}

// socklnd 5.3 (6), 6 (3)
func TestARestartedPeerIsRefusedOnceAndThenTaken(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	old := []*wire{p.connect(protocol.Control), p.connect(protocol.BulkIn), p.connect(protocol.BulkOut)}
	p.life++
	h := p.refused(protocol.Control)
	if h.SrcIncarnation != n.incarnation || h.Version != protocol.V3 {
		t.Errorf("refusal %+v", h)
	}
	for _, w := range old {
		w.ends()
	}
	w := p.connect(protocol.Control)
	w.put(10)
	if a := n.arrival(); a.from != p.id() {
		t.Errorf("arrival from %s", a.from)
	}
}

// socklnd 5.3 (6)
func TestAPeerThatChangesItsVersionIsRefusedOnceAndThenTaken(t *testing.T) {
	n := start(t, nil)
	p := newPuppet(n)
	old := p.connect(protocol.Control)
	p.version = protocol.V2
	if h := p.refused(protocol.Control); h.Version != protocol.V2 {
		t.Errorf("refusal of version %s", h.Version)
	}
	old.ends()
	w := p.connect(protocol.Control)
	w.put(10)
	n.arrival()
}
