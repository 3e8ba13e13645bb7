package fuzz

import (
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/lnd/socklnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// FuzzSocklndHello feeds bytes to a reader of HELLOs the way a connection
// does, and encodes again what it takes.
func FuzzSocklndHello(f *testing.F) {
	eachRecorded(f, func(u *recording.Unit) {
		if u.Kind == recording.KindHello {
			f.Add(u.Raw)
		}
	})
	for _, b := range madeHellos(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		need := helloNeed(t, b)
		if need == 0 || need > len(b) {
			if _, _, err := protocol.DecodeHello(b); err == nil {
				t.Fatal("decoded what is not complete")
			}
			return
		}
		h, order, err := protocol.DecodeHello(b[:need])
		if err != nil {
			checkNamed(t, err)
			return
		}
		again, err := h.Append(nil, socklndOrder(order))
		if err != nil {
			t.Fatalf("%+v does not encode: %v", h, err)
		}
		if h.Size() != len(again) || len(again) != need {
			t.Fatalf("%d bytes became %d, Size() = %d", need, len(again), h.Size())
		}
		h2, order2, err := protocol.DecodeHello(again)
		if err != nil || order2 != order || !reflect.DeepEqual(h, h2) {
			t.Fatalf("%+v became %+v (%v)", h, h2, err)
		}
	})
}

// helloNeed asks HelloNeed after each step, as a connection does, and returns
// its last answer, 0 after an error.
func helloNeed(t *testing.T, b []byte) int {
	t.Helper()
	have := 0
	for range 5 {
		need, err := protocol.HelloNeed(b[:have])
		if err != nil {
			checkNamed(t, err)
			return 0
		}
		if need > protocol.MaxHelloSize {
			t.Fatalf("asks for %d bytes", need)
		}
		if need <= have || need > len(b) {
			return need
		}
		have = need
	}
	t.Fatal("never satisfied")
	return 0
}

// madeHellos are HELLOs that no recording has.
func madeHellos(f *testing.F) [][]byte {
	f.Helper()
	src, err := lnet.ParseNID("192.168.1.10@tcp")
	if err != nil {
		f.Fatal(err)
	}
	var all [][]byte
	for _, v := range []protocol.Version{protocol.V1, protocol.V2, protocol.V3, protocol.V4} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			h := protocol.Hello{Version: v, Src: src, Dst: src, SrcPID: lnet.PIDLustre, Type: protocol.None}
			if !v.LargeNIDs() {
				h.IPs = append(h.IPs, src.IP(), src.IP())
			}
			b, err := h.Append(nil, order)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, b)
		}
	}
	return all
}

// checkNamed lets only errors pass that say what is wrong with which field.
func checkNamed(t *testing.T, err error) {
	t.Helper()
	var (
		magic   *protocol.MagicError
		version *protocol.UnknownVersionError
		field   *lnet.FieldError
	)
	if !errors.As(err, &magic) && !errors.As(err, &version) && !errors.As(err, &field) &&
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("error %T: %v", err, err)
	}
}

// socklndOrder is a byte order that can append.
func socklndOrder(o binary.ByteOrder) binary.AppendByteOrder {
	if o == binary.ByteOrder(binary.BigEndian) {
		return binary.BigEndian
	}
	return binary.LittleEndian
}
