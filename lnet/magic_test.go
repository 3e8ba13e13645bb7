package lnet

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// The column "LE bytes" of lnet-wire 6.
//
// lnet-wire 6
func TestMagicBytes(t *testing.T) {
	for _, tt := range []struct {
		magic uint32
		bytes string
	}{
		{MagicIB, "91 1b e9 0b"},
		{MagicGNI, "be ba 0f b0"},
		{MagicTCP, "ed 0d bc ee"},
		{MagicKFI, "ef be ad de"},
		{MagicEFA, "be 92 e0 2b"},
		{MagicAcceptor, "00 71 ce ac"},
		{MagicPing, "67 6e 69 70"},
		{MagicProto, "63 69 72 45"},
	} {
		b := binary.LittleEndian.AppendUint32(nil, tt.magic)
		if got := fmt.Sprintf("% x", b); got != tt.bytes {
			t.Errorf("magic %#08x is % x, want %s", tt.magic, b, tt.bytes)
		}
		if order, ok := MagicOrder(b, tt.magic); !ok || order != binary.ByteOrder(binary.LittleEndian) {
			t.Errorf("magic %#08x: order %v, %v", tt.magic, order, ok)
		}
		b = binary.BigEndian.AppendUint32(nil, tt.magic)
		if order, ok := MagicOrder(append(b, 1, 2), tt.magic); !ok || order != binary.ByteOrder(binary.BigEndian) {
			t.Errorf("magic %#08x swapped: order %v, %v", tt.magic, order, ok)
		}
		if order, ok := MagicOrder(b[:3], tt.magic); ok || order != nil {
			t.Errorf("three bytes: order %v, %v", order, ok)
		}
		if order, ok := MagicOrder(b, tt.magic+1); ok || order != nil {
			t.Errorf("another magic: order %v, %v", order, ok)
		}
	}
}
