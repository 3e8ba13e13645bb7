package fuzz

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
)

// FuzzSocklndFrame decodes frames in both byte orders, encodes them again,
// and asks which cookies they acknowledge.
func FuzzSocklndFrame(f *testing.F) {
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindNoop || u.Frame.Request != 0 {
			f.Add(u.Raw[:protocol.FrameSize])
		}
	})
	for _, frame := range []protocol.Frame{
		{Type: protocol.FrameLNet},
		{Type: protocol.FrameLNet, Request: 16, Ack: 9},
		{Type: protocol.FrameNoop, Ack: protocol.KeepaliveCookie},
		{Type: protocol.FrameNoop, Checksum: 0x757e3d7d, Ack: 2},
		{Type: protocol.FrameNoop, Request: 7, Ack: 5},
		{Type: protocol.FrameNoop, Request: 5, Ack: 9},
		{Type: protocol.FrameNoop, Request: 2, Ack: math.MaxUint64},
	} {
		f.Add(frame.Append(nil, binary.LittleEndian))
		f.Add(frame.Append(nil, binary.BigEndian))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			var frame protocol.Frame
			if err := frame.Decode(b, order); err != nil {
				checkNamed(t, err)
				if frame != (protocol.Frame{}) {
					t.Fatalf("half decoded: %+v", frame)
				}
				continue
			}
			if again := frame.Append(nil, socklndOrder(order)); !bytes.Equal(again, b[:protocol.FrameSize]) {
				t.Fatalf("%x became %x", b[:protocol.FrameSize], again)
			}
			for v := protocol.V2; v <= protocol.V4; v++ {
				checkAcknowledged(t, frame, v)
			}
		}
	})
}

// checkAcknowledged checks only the first cookies, because a frame may announce 2^64 of them.
func checkAcknowledged(t *testing.T, frame protocol.Frame, v protocol.Version) {
	t.Helper()
	set, err := protocol.Acknowledged(frame, v)
	if err != nil {
		checkNamed(t, err)
		if set.Len() != 0 {
			t.Fatalf("%v %+v: an error and %d cookies", v, frame, set.Len())
		}
		return
	}
	n, last := uint64(0), uint64(0)
	for k := range set.All() {
		if k <= last || !set.Contains(k) {
			t.Fatalf("%v %+v acknowledges %d after %d", v, frame, k, last)
		}
		n, last = n+1, k
		if n == 100 {
			break
		}
	}
	if n != min(set.Len(), 100) {
		t.Fatalf("%v %+v: %d cookies, Len() = %d", v, frame, n, set.Len())
	}
}

// FuzzSocklndAckQueue adds cookies in any order and removes them in any way. The peer must decode each
// cookie once.
func FuzzSocklndAckQueue(f *testing.F) {
	f.Add([]byte{2, 3, 4, 0, 9, 8, 1})
	f.Add([]byte{5, 7, 6, 255, 200, 0, 201, 202, 203, 255, 255})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var q protocol.AckQueue
		seen := map[uint64]bool{} // false: outstanding, true: acknowledged
		acknowledge := func(frame protocol.Frame) {
			set, err := protocol.Acknowledged(frame, protocol.V3)
			if err != nil || set.Len() > uint64(len(seen)) {
				t.Fatalf("%+v: %v", frame, err)
			}
			for k := range set.All() {
				if done, added := seen[k]; done || !added {
					t.Fatalf("%+v acknowledges %d, which is not outstanding", frame, k)
				}
				seen[k] = true
			}
		}
		for _, step := range steps {
			switch k := uint64(step); k {
			case 0:
				if frame, ok := q.Next(); ok {
					acknowledge(frame)
				}
			case 255:
				if k, ok := q.TakePiggyback(); ok {
					acknowledge(protocol.Frame{Type: protocol.FrameLNet, Ack: k})
				}
			case protocol.KeepaliveCookie:
				q.Add(k)
			default:
				if _, added := seen[k]; !added {
					seen[k] = false
					q.Add(k)
				}
			}
		}
		for frame, ok := q.Next(); ok; frame, ok = q.Next() {
			acknowledge(frame)
		}
		for k, done := range seen {
			if !done {
				t.Fatalf("%d was never acknowledged", k)
			}
		}
	})
}
