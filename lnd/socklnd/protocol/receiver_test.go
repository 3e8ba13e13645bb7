package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// sentMessage is a message of a stream, and the memory for its payload.
type sentMessage struct {
	frame   Frame
	header  lnet.Header
	payload []byte
	// pieces are the sizes of the memory into which the payload is placed. Their sum may be less
	// than the payload.
	pieces []int
	// spoilt makes the checksum wrong.
	spoilt bool
}

func (s *sentMessage) wanted() int {
	n := 0
	for _, p := range s.pieces {
		n += p
	}
	return n
}

// putOf returns a PUT with n bytes of payload, all of them wanted in one piece.
func putOf(n int) sentMessage {
	s := sentMessage{frame: Frame{Type: FrameLNet}, header: headerPut, payload: pattern(n), pieces: []int{n}}
	s.header.PayloadLength = uint32(n)
	return s
}

func noop(request, ack uint64) sentMessage {
	return sentMessage{frame: Frame{Type: FrameNoop, Request: request, Ack: ack}}
}

// pattern returns n bytes in which adjacent ranges differ.
func pattern(n int) []byte {
	b := make([]byte, n)
	for k := range b {
		b[k] = byte(k ^ k>>8 ^ k>>16)
	}
	return b
}

// encodeStream encodes messages one after the other.
func encodeStream(t rapid.TB, v Version, order anyOrder, messages []sentMessage) []byte {
	t.Helper()
	var b []byte
	for k := range messages {
		m := &messages[k]
		start := len(b)
		if v.Framed() {
			b = m.frame.Append(b, order)
		}
		if m.frame.Type == FrameLNet {
			var err error
			if b, err = v.AppendHeader(b, &m.header); err != nil {
				t.Fatal(err)
			}
			b = append(b, m.payload...)
		}
		if m.frame.Checksum == 0 {
			continue
		}
		sum := Checksum(ChecksumInit, b[start:start+4], make([]byte, 4), b[start+8:])
		if v != V2 {
			sum = Checksum(ChecksumInit, m.payload)
		}
		if m.spoilt {
			sum ^= 1
		}
		m.frame.Checksum = sum
		order.PutUint32(b[start+4:], sum)
	}
	return b
}

// received is an event and the state of the receiver at that time.
type received struct {
	Event   Event
	Frame   Frame
	Header  lnet.Header
	Payload []byte
}

// wantedEvents returns the expected events for a stream of messages.
func wantedEvents(v Version, messages []sentMessage) []received {
	var out []received
	for _, m := range messages {
		f := m.frame
		if f.Type == FrameNoop {
			out = append(out, received{Event: GotNoop, Frame: f})
			continue
		}
		if f.Ack != 0 {
			out = append(out, received{Event: GotAck, Frame: f})
		}
		out = append(out, received{Event: GotHeader, Frame: f, Header: m.header},
			received{Event: GotPayload, Frame: f, Payload: append([]byte(nil), m.payload[:m.wanted()]...)})
	}
	return out
}

// reception passes a stream to a receiver and records its events.
type reception struct {
	rx       *Receiver
	header   lnet.Header
	messages []sentMessage // messages that have not been placed
	placed   [][]byte

	events []received
	// direct counts the payload bytes of the current message that were read directly into their
	// destination. copied holds the number of other payload bytes of each message.
	direct int
	copied []int
	reads  int
}

func newReception(v Version, order binary.ByteOrder, messages []sentMessage) *reception {
	r := &reception{}
	r.rx = NewReceiver(v, order, &r.header)
	for _, m := range messages {
		if m.frame.Type == FrameLNet {
			r.messages = append(r.messages, m)
		}
	}
	return r
}

// feed passes the stream to the receiver in reads of at most the sizes that chunk returns.
func (r *reception) feed(stream []byte, chunk func() int) error {
	for len(stream) > 0 {
		n, limit := 0, min(chunk(), len(stream))
		for _, b := range r.rx.Buffers() {
			n += copy(b, stream[n:limit])
		}
		if n == 0 {
			return errors.New("the receiver has no room")
		}
		r.reads++
		if r.rx.state == receivePayload {
			r.direct += min(n, r.rx.left)
		}
		stream = stream[n:]
		r.rx.Filled(n)
		if err := r.consume(); err != nil {
			return err
		}
	}
	return nil
}

func (r *reception) consume() error {
	for {
		event, err := r.rx.Next()
		if err != nil {
			return err
		}
		got := received{Event: event, Frame: r.rx.Frame()}
		switch event {
		case NeedBytes:
			return nil
		case GotHeader:
			got.Header = r.header
			r.direct, r.placed = 0, nil
			for _, n := range r.messages[0].pieces {
				r.placed = append(r.placed, make([]byte, n))
			}
			r.messages = r.messages[1:]
			if err := r.rx.Place(r.placed); err != nil {
				return err
			}
		case GotPayload:
			got.Payload = slices.Concat(r.placed...)
			r.copied = append(r.copied, len(got.Payload)-r.direct)
		}
		r.events = append(r.events, got)
	}
}

func whole() int     { return 1 << 30 }
func oneByte() int   { return 1 }
func sevenByte() int { return 7 }

var chunkings = []struct {
	name string
	size func() int
}{{"whole", whole}, {"byte by byte", oneByte}, {"by sevens", sevenByte}}

// everyKind returns a stream with every kind of message.
func everyKind(v Version) []sentMessage {
	ms := []sentMessage{putOf(10), putOf(0)}
	scattered := putOf(5000)
	scattered.pieces = []int{0, 1, 4095, 0, 904}
	truncated := putOf(9000)
	truncated.pieces = []int{100, 23}
	dropped := putOf(9000)
	dropped.pieces = nil
	ms = append(ms, scattered, truncated, dropped, putOf(20000), putOf(3))
	if v == V1 {
		return ms
	}
	request := putOf(64)
	request.frame.Request = 77
	piggyback := putOf(0)
	piggyback.frame.Ack = 5
	return append(ms, noop(0, 9), request, noop(0, 0), noop(0, 2), piggyback, noop(0, 3))
}

// socklnd 8.1 (1), 8.2, 13 (1), 20.1
func TestReceiverReadsEveryKindOfMessageInAnyChunks(t *testing.T) {
	for v := V1; v <= V4; v++ {
		for _, order := range []anyOrder{binary.LittleEndian, binary.BigEndian} {
			for _, c := range chunkings {
				t.Run(fmt.Sprintf("%s %s %s", v, order, c.name), func(t *testing.T) {
					messages := everyKind(v)
					stream := encodeStream(t, v, order, messages)
					r := newReception(v, order, messages)
					if err := r.feed(stream, c.size); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(wantedEvents(v, messages), r.events, equalNIDs); diff != "" {
						t.Error(diff)
					}
					if r.rx.Partial() {
						t.Error("a message is left incomplete")
					}
				})
			}
		}
	}
}

// drawMessages draws messages that a peer may send on a connection of version v.
func drawMessages(t *rapid.T, v Version) []sentMessage {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sentMessage {
		checksum := uint32(0)
		if v.Framed() && rapid.Bool().Draw(t, "checksum") {
			checksum = 1 // encodeStream replaces it by the correct one
		}
		if v.Framed() && rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			n := noop(rapid.Uint64Range(0, 9).Draw(t, "a"), rapid.Uint64Range(0, 9).Draw(t, "b"))
			n.frame.Checksum = checksum
			return n
		}
		size := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 5000), rapid.SampledFrom([]int{4095, 4096, 17000})).Draw(t, "size")
		m := putOf(size)
		m.frame.Checksum = checksum
		if v.Framed() {
			m.frame.Request = rapid.Uint64Range(0, 3).Draw(t, "request")
			m.frame.Ack = rapid.Uint64Range(0, 3).Draw(t, "ack")
		}
		if m.frame.Ack == KeepaliveCookie {
			m.frame.Ack = 0
		}
		m.pieces = nil
		for left := rapid.IntRange(0, size).Draw(t, "wanted"); left > 0 && len(m.pieces) < 20; {
			n := rapid.IntRange(0, left).Draw(t, "piece")
			m.pieces = append(m.pieces, n)
			left -= n
		}
		return m
	}), 1, 20).Draw(t, "messages")
}

func TestReceiverGivesTheSameEventsHoweverTheStreamIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom([]Version{V1, V2, V3, V4}).Draw(t, "version")
		order := rapid.SampledFrom([]anyOrder{binary.LittleEndian, binary.BigEndian}).Draw(t, "order")
		messages := drawMessages(t, v)
		stream := encodeStream(t, v, order, messages)
		limit := rapid.SampledFrom([]int{3, 100, 5000, 200000}).Draw(t, "limit")
		r := newReception(v, order, messages)
		sizes := rapid.SliceOfN(rapid.IntRange(1, limit), 1, 8).Draw(t, "chunks")
		if err := r.feed(stream, func() int { return sizes[r.reads%len(sizes)] }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantedEvents(v, messages), r.events, equalNIDs); diff != "" {
			t.Error(diff)
		}
		r.rx.Rest()
		if r.rx.Partial() || r.rx.Large() {
			t.Error("the receiver is not at rest after the stream")
		}
	})
}

func TestReceiverTellsAMessageHasBegun(t *testing.T) {
	for v := V1; v <= V4; v++ {
		m := putOf(50)
		m.pieces = []int{20}
		stream := encodeStream(t, v, binary.LittleEndian, []sentMessage{m})
		r := newReception(v, binary.LittleEndian, []sentMessage{m})
		for k := range stream {
			if got := r.rx.Partial(); got != (k > 0) {
				t.Errorf("%s: after %d bytes of %d: Partial() = %v", v, k, len(stream), got)
			}
			if err := r.feed(stream[k:k+1], oneByte); err != nil {
				t.Fatal(err)
			}
		}
		if r.rx.Partial() {
			t.Errorf("%s: the message is complete and Partial() is true", v)
		}
	}
}

// socklnd 9 (4)-(6)
func TestReceiverChecksChecksums(t *testing.T) {
	payload := func(n int) sentMessage {
		m := putOf(n)
		m.frame.Checksum = 1
		return m
	}
	spoil := func(m sentMessage) sentMessage { m.spoilt = true; return m }
	cut := func(m sentMessage) sentMessage { m.pieces = []int{m.pieces[0] / 2}; return m }
	sumNoop := noop(0, 2)
	sumNoop.frame.Checksum = 1
	tests := []struct {
		name    string
		message sentMessage
		bad     bool
	}{
		{"good", payload(10), false},
		{"good and large", payload(100000), false},
		{"good without payload", payload(0), false},
		{"bad", spoil(payload(10)), true},
		{"bad and large", spoil(payload(100000)), true},
		{"bad without payload", spoil(payload(0)), true},
		{"bad behind a cut payload is not looked at", spoil(cut(payload(10))), false},
		{"good behind a cut payload", cut(payload(10)), false},
		{"noop good", sumNoop, false},
		{"noop bad", spoil(sumNoop), true},
	}
	for v := V2; v <= V4; v++ {
		for _, test := range tests {
			for _, c := range chunkings {
				t.Run(fmt.Sprintf("%s %s %s", v, test.name, c.name), func(t *testing.T) {
					messages := []sentMessage{test.message, noop(0, 0)}
					stream := encodeStream(t, v, binary.LittleEndian, messages)
					err := newReception(v, binary.LittleEndian, messages).feed(stream, c.size)
					var sum *ChecksumError
					if got := errors.As(err, &sum); got != test.bad || err != nil && !got {
						t.Errorf("error %v, want a checksum error: %v", err, test.bad)
					}
				})
			}
		}
	}
}

// socklnd 8.1 (2), 8.3
func TestReceiverRejects(t *testing.T) {
	frame := Frame{Type: 0xc2}
	for _, test := range []struct {
		name   string
		stream []byte
	}{
		{"an unknown frame type", frame.Append(nil, binary.LittleEndian)},
		{"the other byte order", (&Frame{Type: FrameNoop}).Append(nil, binary.BigEndian)},
		{"zeros", make([]byte, FrameSize)},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := newReception(V3, binary.LittleEndian, nil).feed(test.stream, oneByte)
			if !errors.Is(err, ErrFrameType) {
				t.Errorf("error %v, want %v", err, ErrFrameType)
			}
		})
	}
	t.Run("a NID with reserved bits", func(t *testing.T) {
		stream := encodeStream(t, V3, binary.LittleEndian, []sentMessage{putOf(0)})
		stream[FrameSize+7] = 0xff // a byte of dest_nid
		err := newReception(V3, binary.LittleEndian, nil).feed(stream, whole)
		var field *lnet.FieldError
		if !errors.As(err, &field) {
			t.Errorf("error %v, want one about a field", err)
		}
	})
}

func TestReceiverRefusesAPlacement(t *testing.T) {
	var h lnet.Header
	rx := NewReceiver(V1, binary.LittleEndian, &h)
	if err := rx.Place(nil); err == nil {
		t.Error("a placement without a message was taken")
	}
	stream := encodeStream(t, V1, binary.LittleEndian, []sentMessage{putOf(10)})
	n := copy(rx.Buffers()[0], stream)
	rx.Filled(n)
	if event, err := rx.Next(); event != GotHeader || err != nil {
		t.Fatal(event, err)
	}
	if _, err := rx.Next(); err == nil {
		t.Error("went on without a placement")
	}
	if err := rx.Place([][]byte{make([]byte, 6), make([]byte, 5)}); err == nil {
		t.Error("11 bytes of memory were taken for 10 of payload")
	}
	place := make([]byte, 10)
	if err := rx.Place([][]byte{place}); err != nil {
		t.Fatal(err)
	}
	if event, err := rx.Next(); event != GotPayload || err != nil || !bytes.Equal(place, pattern(10)) {
		t.Errorf("event %d, error %v, payload % x", event, err, place)
	}
}

// Abandon discards the rest of a payload, however much of it has arrived, and the receiver finds
// the next message after it.
func TestAbandonedPayload(t *testing.T) {
	for _, arrived := range []int{0, 1, 5000, 9000} {
		var h lnet.Header
		rx := NewReceiver(V3, binary.LittleEndian, &h)
		if rx.Abandon() {
			t.Error("a payload was abandoned where none is")
		}
		messages := []sentMessage{putOf(9000), putOf(10)}
		stream := encodeStream(t, V3, binary.LittleEndian, messages)
		head := V3.Overhead()
		if err := feedTo(rx, stream[:head]); err != nil {
			t.Fatal(err)
		}
		if event, err := rx.Next(); event != GotHeader || err != nil {
			t.Fatal(event, err)
		}
		if err := rx.Place([][]byte{make([]byte, 4000), make([]byte, 5000)}); err != nil {
			t.Fatal(err)
		}
		if err := feedTo(rx, stream[head:head+arrived]); err != nil {
			t.Fatal(err)
		}
		if !rx.Abandon() {
			t.Fatalf("with %d bytes in place, the payload cannot be abandoned", arrived)
		}
		for {
			event, err := rx.Next()
			if err != nil {
				t.Fatal(err)
			}
			if event == GotHeader {
				break
			}
			at := head + arrived
			arrived++
			if err := feedTo(rx, stream[at:at+1]); err != nil {
				t.Fatal(err)
			}
		}
		if h.PayloadLength != 10 {
			t.Errorf("the message behind it has %d bytes", h.PayloadLength)
		}
	}
}

// feedTo copies b into the receiver's buffers without calling Next.
func feedTo(rx *Receiver, b []byte) error {
	for len(b) > 0 {
		n := 0
		for _, to := range rx.Buffers() {
			n += copy(to, b[n:])
		}
		if n == 0 {
			return errors.New("the receiver has no room")
		}
		rx.Filled(n)
		b = b[n:]
	}
	return nil
}
