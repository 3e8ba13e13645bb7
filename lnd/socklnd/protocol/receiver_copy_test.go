package protocol

import (
	"encoding/binary"
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

const mib = 1 << 20

// repeat returns n copies of m.
func repeat(n int, m sentMessage) []sentMessage {
	ms := make([]sentMessage, n)
	for k := range ms {
		ms[k] = m
	}
	return ms
}

// copies passes a stream to a receiver. Every read fills the receiver's buffers. It returns how
// much of each payload was copied.
func copies(t *testing.T, messages []sentMessage) *reception {
	t.Helper()
	r := newReception(V3, binary.LittleEndian, messages)
	if err := r.feed(encodeStream(t, V3, binary.LittleEndian, messages), whole); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReceiverCopiesNothingOfLargePayloadsInARow(t *testing.T) {
	r := copies(t, repeat(4, putOf(mib)))
	if first := r.copied[0]; first > smallBuffer {
		t.Errorf("%d bytes of the first payload were copied, at most %d came along with its header", first, smallBuffer)
	}
	for k, n := range r.copied[1:] {
		if n != 0 {
			t.Errorf("%d bytes of large payload %d were copied", n, k+1)
		}
	}
	if r.rx.Large() {
		t.Error("large payloads took a large buffer, which they do not need")
	}
}

func TestReceiverCopiesNothingBetweenNoops(t *testing.T) {
	r := copies(t, []sentMessage{putOf(mib), noop(0, 2), putOf(mib), noop(0, 3), noop(0, 4), putOf(mib)})
	for k, n := range r.copied[1:] {
		if n > FrameSize+lnet.HeaderNID4Size {
			t.Errorf("%d bytes of large payload %d were copied", n, k+1)
		}
	}
}

func TestReceiverCopiesLittleWhenSmallMessagesTurnLarge(t *testing.T) {
	// Given a connection with some small messages, when a large one comes, then no more of it is
	// copied than fits into the small buffer.
	var messages []sentMessage
	for range 10 {
		messages = append(messages, putOf(100), putOf(mib))
	}
	r := copies(t, messages)
	for k, n := range r.copied {
		if len(messages[k].payload) == mib && n > smallBuffer {
			t.Errorf("%d bytes of large payload %d were copied, at most %d may be", n, k, smallBuffer)
		}
	}
}

func TestReceiverGivesTheLargeBufferBackToReadLargePayloads(t *testing.T) {
	// Given a burst of small messages, for which the receiver reads far ahead, when large messages
	// with small ones between them follow, then only for the first of them more is copied than fits
	// into the small buffer.
	messages := repeat(2000, putOf(100))
	burst := len(messages)
	for range 5 {
		messages = append(messages, putOf(mib), putOf(100))
	}
	r := copies(t, messages)
	if n := r.copied[burst]; n > largeBuffer {
		t.Errorf("%d bytes of the first large payload were copied, the buffer has %d", n, largeBuffer)
	}
	for k, n := range r.copied[burst+1:] {
		if n > smallBuffer {
			t.Errorf("%d bytes of payload %d after the burst were copied", n, k+1)
		}
	}
	if r.rx.Large() {
		t.Error("the large buffer is still held")
	}
}

func TestReceiverReadsManySmallMessagesAtATime(t *testing.T) {
	messages := repeat(10000, putOf(32))
	r := copies(t, messages)
	total := len(messages) * (V3.Overhead() + 32)
	if most := total/largeBuffer + 3; r.reads > most {
		t.Errorf("%d reads for %d bytes, want at most %d", r.reads, total, most)
	}
	if !r.rx.Large() {
		t.Fatal("a burst did not grow the buffer")
	}
	r.rx.Rest()
	if r.rx.Large() {
		t.Error("an idle receiver keeps the large buffer")
	}
}

func TestReceiverRestKeepsBufferedBytes(t *testing.T) {
	messages := repeat(200, putOf(100))
	stream := encodeStream(t, V3, binary.LittleEndian, messages)
	r := newReception(V3, binary.LittleEndian, messages)
	cut := 2*smallBuffer + 50
	if err := r.feed(stream[:cut], whole); err != nil {
		t.Fatal(err)
	}
	r.rx.Rest()
	if !r.rx.Large() {
		t.Fatal("the buffer went with the beginning of a message in it")
	}
	if err := r.feed(stream[cut:], whole); err != nil {
		t.Fatal(err)
	}
	if len(r.copied) != len(messages) {
		t.Errorf("%d messages came, want %d", len(r.copied), len(messages))
	}
	r.rx.Close()
	if r.rx.Large() {
		t.Error("a closed receiver keeps the large buffer")
	}
}

func TestReceiverForgetsThePlacedMemory(t *testing.T) {
	r := copies(t, []sentMessage{putOf(mib)})
	for k, b := range r.rx.wanted[:cap(r.rx.wanted)] {
		if b != nil {
			t.Errorf("wanted[%d] still refers to memory of the message", k)
		}
	}
	for k, b := range r.rx.iov[:cap(r.rx.iov)] {
		if b != nil {
			t.Errorf("iov[%d] still refers to memory of the message", k)
		}
	}
}

func TestReceiverAllocatesNothingInASteadyState(t *testing.T) {
	for _, test := range []struct {
		name    string
		version Version
		payload int
		sums    bool
	}{
		{"small", V3, 100, false}, {"one page", V3, 4096, false}, {"large", V3, mib, false},
		{"with checksums", V2, 100, true}, {"large, with checksums", V2, mib, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			messages := append(repeat(20, putOf(test.payload)), noop(0, 0))
			var stream []byte
			for _, m := range messages {
				b := encodeStream(t, test.version, binary.LittleEndian, []sentMessage{m})
				if test.sums { // the field is still 0
					binary.LittleEndian.PutUint32(b[4:], Checksum(ChecksumInit, b))
				}
				stream = append(stream, b...)
			}
			place := [][]byte{make([]byte, test.payload)}
			var h lnet.Header
			rx := NewReceiver(test.version, binary.LittleEndian, &h)
			round := func() {
				for rest := stream; len(rest) > 0; {
					n := 0
					for _, b := range rx.Buffers() {
						n += copy(b, rest[n:])
					}
					rest = rest[n:]
					rx.Filled(n)
					for event := GotNoop; event != NeedBytes; {
						var err error
						if event, err = rx.Next(); err != nil {
							t.Fatal(err)
						}
						if event == GotHeader {
							if err := rx.Place(place); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			round()
			if n := testing.AllocsPerRun(10, round); n != 0 {
				t.Errorf("%v allocations in a round of %d messages", n, len(messages))
			}
		})
	}
}
