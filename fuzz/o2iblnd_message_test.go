package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	o2iblnd "github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// eachRDMA calls f with every transfer in the recordings, including connection requests.
func eachRDMA(f testing.TB, do func(x *recording.Transfer)) {
	f.Helper()
	for _, name := range recording.RDMANames() {
		rec, err := recording.LoadRDMA(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range rec.Conversations {
			for i := range c.Transfers {
				do(&c.Transfers[i])
			}
		}
	}
}

// FuzzO2iblndMessage decodes messages, and encodes valid ones again.
func FuzzO2iblndMessage(f *testing.F) {
	eachRDMA(f, func(x *recording.Transfer) {
		if x.Kind != recording.Written {
			f.Add(x.Data)
		}
	})
	for _, b := range madeMessages(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m o2iblnd.Message
		order, err := m.Decode(b, o2iblnd.Check)
		if err != nil {
			checkO2iblndError(t, err)
			return
		}
		if n := len(m.Sink.Fragments); n > o2iblnd.MaxFragments {
			t.Fatalf("%d fragments", n)
		}
		payload := m.Payload
		if m.Type == o2iblnd.Immediate {
			if payload, err = m.Content(); err != nil {
				checkO2iblndError(t, err)
				return
			}
			if len(payload) > o2iblnd.MaxPayload {
				return // no receive buffer is so large
			}
		}
		again, err := m.Append(nil, socklndOrder(order))
		if err != nil {
			t.Fatalf("%+v does not encode: %v", m, err)
		}
		var m2 o2iblnd.Message
		order2, err := m2.Decode(append(again, payload...), o2iblnd.Check)
		m.Payload, m2.Payload = payload, m2.Payload[:min(len(payload), len(m2.Payload))]
		if err != nil || order2 != order || !bytes.Equal(m.Payload, m2.Payload) {
			t.Fatalf("%+v became %+v (%v)", m, m2, err)
		}
		m.Payload, m2.Payload = nil, nil
		if !reflect.DeepEqual(m, m2) {
			t.Fatalf("%+v became %+v", m, m2)
		}
	})
}

// madeMessages returns messages that no recording contains.
func madeMessages(f testing.TB) (all [][]byte) {
	f.Helper()
	src := lnet.NIDFromNumber(lnet.MakeNet(lnet.TypeO2IB, 0), 0x0a080001)
	sink := o2iblnd.Descriptor{Key: 1, Fragments: []o2iblnd.Fragment{{Addr: 2, Length: 3}, {Addr: 4, Length: 5}}}
	for _, typ := range []o2iblnd.Type{
		o2iblnd.ConnReq, o2iblnd.ConnAck, o2iblnd.Noop, o2iblnd.Immediate, o2iblnd.PutReq, o2iblnd.PutNak, o2iblnd.PutAck,
		o2iblnd.PutDone, o2iblnd.GetReq, o2iblnd.GetDone,
	} {
		m := o2iblnd.Message{
			Version: o2iblnd.V2, Type: typ, Credits: 1, Src: src, SrcStamp: 6, Dst: src, DstStamp: 7,
			Params: o2iblnd.Params{Depth: 8, Fragments: 256, Size: o2iblnd.MaxMessage},
			LNet:   lnet.Header{Dest: src, Src: src, Type: lnet.MsgPut}, Cookie: 8, SinkCookie: 9, Status: -61, Sink: sink,
		}
		if typ == o2iblnd.GetReq {
			m.LNet.Type = lnet.MsgGet
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			b, err := m.Append(nil, order)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, b)
		}
		m.Version = o2iblnd.V1
		b, err := m.Append(nil, binary.LittleEndian)
		if err != nil {
			f.Fatal(err)
		}
		o2iblnd.Seal(b, binary.LittleEndian, o2iblnd.Signed)
		all = append(all, b)
	}
	return all
}

// checkO2iblndError fails the test unless the error says what is wrong with which field.
func checkO2iblndError(t *testing.T, err error) {
	t.Helper()
	var (
		magic   *lnet.MagicError
		version *lnet.VersionError
		field   *lnet.FieldError
	)
	if !errors.As(err, &magic) && !errors.As(err, &version) && !errors.As(err, &field) &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %T: %v", err, err)
	}
}
