package fuzz

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/selftest/message"
)

// selftestCodec is a message of LNet selftest.
type selftestCodec interface {
	Append(b []byte) []byte
	Decode(b []byte) error
}

func selftestCodecs() []func() selftestCodec {
	return []func() selftestCodec{
		func() selftestCodec { return new(message.MakeSessionRequest) },
		func() selftestCodec { return new(message.MakeSessionReply) },
		func() selftestCodec { return new(message.RemoveSessionRequest) },
		func() selftestCodec { return new(message.RemoveSessionReply) },
		func() selftestCodec { return new(message.DebugRequest) },
		func() selftestCodec { return new(message.DebugReply) },
		func() selftestCodec { return new(message.JoinRequest) },
		func() selftestCodec { return new(message.JoinReply) },
		func() selftestCodec { return new(message.BatchRequest) },
		func() selftestCodec { return new(message.BatchReply) },
		func() selftestCodec { return new(message.TestRequest) },
		func() selftestCodec { return new(message.TestReply) },
		func() selftestCodec { return new(message.StatRequest) },
		func() selftestCodec { return new(message.StatReply) },
		func() selftestCodec { return new(message.BRWRequest) },
		func() selftestCodec { return new(message.BRWReply) },
		func() selftestCodec { return new(message.PingRequest) },
		func() selftestCodec { return new(message.PingReply) },
	}
}

// FuzzSelftestMessage: exactly one struct, or none, decodes a message, and what
// it is encoded to decodes to the same.
func FuzzSelftestMessage(f *testing.F) {
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindMessage && u.Header.Type == lnet.MsgPut && len(u.Payload) == message.Size {
			f.Add(u.Payload)
		}
	})
	for _, m := range selftestCodecs() {
		f.Add(m().Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		message.ReplyID(b)
		decoded := 0
		for _, m := range selftestCodecs() {
			first, second := m(), m()
			if err := first.Decode(b); err != nil {
				if !errors.Is(err, message.ErrSize) && !errors.Is(err, message.ErrMagic) && !errors.Is(err, message.ErrType) {
					t.Fatal(err)
				}
				if !bytes.Equal(first.Append(nil), second.Append(nil)) {
					t.Fatalf("half decoded: %+v", first)
				}
				continue
			}
			decoded++
			again := first.Append(nil)
			if err := second.Decode(again); err != nil || !bytes.Equal(second.Append(nil), again) {
				t.Fatalf("%+v became %+v, %v", first, second, err)
			}
		}
		if decoded > 1 {
			t.Fatalf("%d structs decode it", decoded)
		}
	})
}

// FuzzSelftestDestinations: no entry is read beyond the list's end.
func FuzzSelftestDestinations(f *testing.F) {
	f.Add(message.AppendDestinations(nil, make([]message.Destination, 3), message.LittleEndian), uint32(2), true)
	f.Add(make([]byte, 4099), uint32(341), false)
	f.Fuzz(func(t *testing.T, b []byte, k uint32, big bool) {
		o := message.LittleEndian
		if big {
			o = message.BigEndian
		}
		index := int(k % (2 * message.MaxDestinations))
		d, ok := message.DecodeDestination(b, index, o)
		if off := message.DestinationsSize(index); ok != (len(b) >= off+8) {
			t.Fatalf("entry %d of %d bytes: %+v, %t", index, len(b), d, ok)
		}
	})
}
