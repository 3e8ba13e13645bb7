package message

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// draw fills a message with random values that can be encoded.
func draw(t *rapid.T, v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		for k := range v.NumField() {
			draw(t, v.Field(k), v.Type().Field(k).Name)
		}
	case reflect.Array:
		for k := range v.Len() {
			draw(t, v.Index(k), name)
		}
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Uint8:
		if v.Type() == reflect.TypeFor[Order]() {
			v.SetUint(uint64(rapid.Uint8Range(0, 1).Draw(t, name)))
			return
		}
		v.SetUint(uint64(rapid.Uint8().Draw(t, name)))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	default:
		t.Fatalf("%s: %v", name, v.Kind())
	}
}

// Given any message of any type, when it is encoded and decoded, then the result is equal.
//
// selftest 1.1, 2.3
func TestDecodeUndoesAppend(t *testing.T) {
	for typ, m := range codecs() {
		t.Run(typ.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := fresh(m)
				draw(t, reflect.ValueOf(in).Elem(), "")
				if q, ok := in.(*TestRequest); ok {
					q.express(rapid.Bool().Draw(t, "brw"))
				}
				b := in.Append(nil)
				out := fresh(m)
				if err := out.Decode(b); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(in, out); diff != "" {
					t.Fatal(diff)
				}
			})
		})
	}
}

// express clears the parameters that a test request cannot encode.
func (m *TestRequest) express(brw bool) {
	if !brw {
		m.Tests = ServicePing
		m.BRW = BRWParameters{}
		return
	}
	m.Tests = ServiceBRW
	m.Ping = PingParameters{}
	if m.Features&BulkLength == 0 {
		m.BRW.Length, m.BRW.Offset = 0, 0
	} else {
		m.BRW.Op, m.BRW.Flags, m.BRW.Pages = m.BRW.Op&0xffff, m.BRW.Flags&0xffff, 0
	}
}

// Given any bytes, when they are decoded as any type, then either the error is one of the documented ones
// and the message is unchanged, or the message encodes to bytes that decode to the same.
//
// selftest 2, 2.5 (1)
func TestDecodeAnything(t *testing.T) {
	types := codecs()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		if len(b) >= 12 && rapid.Bool().Draw(t, "well begun") {
			b = append(b, make([]byte, Size)...)[:Size]
			copy(b, rapid.SampledFrom([]string{"\x0d\xf0\xb0\xee", "\xee\xb0\xf0\x0d"}).Draw(t, "magic"))
		}
		for _, m := range types {
			got := fresh(m)
			err := got.Decode(b)
			if err != nil {
				if !errors.Is(err, ErrSize) && !errors.Is(err, ErrMagic) && !errors.Is(err, ErrType) {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, fresh(m)) {
					t.Fatal("half decoded")
				}
				continue
			}
			again := got.Append(nil)
			other := fresh(m)
			if err := other.Decode(again); err != nil || !reflect.DeepEqual(got, other) || !bytes.Equal(again[:12], b[:12]) {
				t.Fatalf("%+v became %+v, %v", got, other, err)
			}
		}
	})
}
