package fuzz

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzSocklndReceiver feeds a stream to two receivers, to one as much as it has
// room for and to the other in chunks, places what arrives here and there, and
// expects both to find the same.
func FuzzSocklndReceiver(f *testing.F) {
	for _, name := range recording.Names() {
		rec, err := recording.Load(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range rec.Conversations {
			units, err := c.Units()
			if err != nil {
				f.Fatal(err)
			}
			var b []byte
			for i := range units {
				if k := units[i].Kind; (k == recording.KindNoop || k == recording.KindMessage) && len(b)+len(units[i].Raw) < 4096 {
					b = append(b, units[i].Raw...)
				}
			}
			f.Add(byte(protocol.V3), false, b, []byte{24, 1, 90}, []byte{0xff, 3})
		}
	}
	noop := protocol.Frame{Type: protocol.FrameNoop, Request: 5, Ack: 9}
	f.Add(byte(protocol.V2), true, noop.Append(nil, binary.BigEndian), []byte{1}, []byte{})
	f.Add(byte(protocol.V1), false, make([]byte, 200), []byte{7}, []byte{1})

	f.Fuzz(func(t *testing.T, version byte, bigEndian bool, stream, chunks, places []byte) {
		v := protocol.V1 + protocol.Version(version%4)
		var order binary.ByteOrder = binary.LittleEndian
		if bigEndian {
			order = binary.BigEndian
		}
		whole := receive(t, v, order, stream, nil, places)
		parts := receive(t, v, order, stream, chunks, places)
		if len(whole) != len(parts) {
			t.Fatalf("%d events from the whole stream, %d from its parts:\n%v\n%v", len(whole), len(parts), whole, parts)
		}
		for k := range whole {
			if whole[k] != parts[k] {
				t.Fatalf("event %d is %+v, from parts %+v", k, whole[k], parts[k])
			}
		}
	})
}

// received is one thing that a receiver has found.
type received struct {
	event  protocol.Event
	frame  protocol.Frame
	header lnet.Header
	length int // of what was kept of the payload
	sum    uint32
	err    string
}

// placedMost is how much of a payload is kept.
const placedMost = 8 << 10

// receive runs a stream through a receiver and returns what it found. A chunk
// is at most so many bytes; no chunks: all that fits.
func receive(t *testing.T, v protocol.Version, order binary.ByteOrder, stream, chunks, places []byte) (found []received) {
	t.Helper()
	var h lnet.Header
	rx := protocol.NewReceiver(v, order, &h)
	defer rx.Close()
	var placed []byte
	headers := 0
	for reads := 0; len(stream) > 0; reads++ {
		limit := len(stream)
		if len(chunks) > 0 {
			limit = min(limit, 1+int(chunks[reads%len(chunks)]))
		}
		n, room := 0, 0
		for _, b := range rx.Buffers() {
			n += copy(b, stream[n:limit])
			room += len(b)
		}
		if most := len(placed) + 64<<10; n == 0 || room > most {
			t.Fatalf("room for %d bytes, at most %d make sense", room, most)
		}
		stream = stream[n:]
		rx.Filled(n)
		for event := protocol.GotNoop; event != protocol.NeedBytes; {
			var err error
			if event, err = rx.Next(); err != nil {
				return append(found, received{err: err.Error()})
			}
			switch event {
			case protocol.GotNoop, protocol.GotAck:
				found = append(found, received{event: event, frame: rx.Frame()})
			case protocol.GotHeader:
				found = append(found, received{event: event, frame: rx.Frame(), header: h})
				var pieces [][]byte
				placed, pieces = place(int(h.PayloadLength), headers, places)
				headers++
				if err := rx.Place(pieces); err != nil {
					t.Fatal(err)
				}
			case protocol.GotPayload:
				found = append(found, received{event: event, length: len(placed), sum: crc32.ChecksumIEEE(placed)})
			}
		}
	}
	return found
}

// place makes memory for a payload, all of it or a part, in one piece or some.
func place(payload, k int, places []byte) (all []byte, pieces [][]byte) {
	choice := byte(0xff)
	if len(places) > 0 {
		choice = places[k%len(places)]
	}
	n := min(payload, placedMost)
	if choice != 0xff {
		n = min(n, int(choice)*29)
	}
	all = bytes.Repeat([]byte{0xaa}, n)
	step := 1 + int(choice)*3
	for rest := all; len(rest) > 0; {
		m := min(step, len(rest))
		pieces = append(pieces, rest[:m])
		rest = rest[m:]
	}
	return all, pieces
}
