package transport

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// Match bits contain the TMID in the upper 12 bits and the counter in the others.
//
// transport-tests B (12)
// transport 6.4
// r.M0.net.xprt.lnet.end-point-address
func TestMatchBits(t *testing.T) {
	for _, tt := range []struct {
		tmid    uint16
		counter uint64
		raw     uint64
	}{
		{0, 0, 0},
		{4095, 0, 0xfff0000000000000},
		{1, 1, 0x0010000000000001},
		{4095, 1<<52 - 1, 0xffffffffffffffff},
		{0x555, 0xaaaaaaaaaaaaa, 0x555aaaaaaaaaaaaa},
	} {
		m := MakeMatchBits(tt.tmid, tt.counter)
		if uint64(m) != tt.raw || m.TMID() != tt.tmid || m.Counter() != tt.counter {
			t.Errorf("(%d, %#x): %#x, which is (%d, %#x)", tt.tmid, tt.counter, uint64(m), m.TMID(), m.Counter())
		}
	}
}

// The counter of passive buffers continues with 1 after its maximum.
//
// transport 6.4
func TestCounterOfPassiveBuffers(t *testing.T) {
	m := MakeMatchBits(7, 0)
	for _, want := range []uint64{1, 2, 3} {
		if m = m.Next(); m != MakeMatchBits(7, want) {
			t.Fatalf("%#x, want counter %d", uint64(m), want)
		}
	}
	m = MakeMatchBits(4095, MaxCounter-1)
	for _, want := range []uint64{MaxCounter, 1, 2} {
		if m = m.Next(); m != MakeMatchBits(4095, want) {
			t.Fatalf("%#x, want counter %#x", uint64(m), want)
		}
	}
}

// The header data contain the TMID in the upper 12 bits and the portal in the lower ones.
//
// transport-tests B (13)
// transport 6.5 (1)
func TestHdrData(t *testing.T) {
	for _, tt := range []struct {
		tmid   uint16
		portal uint32
		raw    uint64
	}{
		{0, 0, 0}, {0, 34, 34}, {0, 63, 63},
		{1, 0, 1 << 52}, {1, 34, 0x0010000000000022}, {1, 63, 0x001000000000003f},
		{4095, 0, 0xfff0000000000000}, {4095, 34, 0xfff0000000000022}, {4095, 63, 0xfff000000000003f},
		{12, 34, 0x00c0000000000022},
	} {
		h := MakeHdrData(Address{TMID: tt.tmid, Portal: tt.portal})
		if uint64(h) != tt.raw || h.TMID() != tt.tmid || h.Portal() != uint64(tt.portal) {
			t.Errorf("(%d, %d): %#x, which is (%d, %d)", tt.tmid, tt.portal, uint64(h), h.TMID(), h.Portal())
		}
	}
	wire := binary.LittleEndian.AppendUint64(nil, uint64(MakeHdrData(mustAddress(t, "10.0.0.1@tcp:12345:34:12"))))
	if string(wire) != "\x22\x00\x00\x00\x00\x00\xc0\x00" {
		t.Errorf("% x", wire)
	}
}

// The address of the sender follows from the header data and the process ID. Invalid header data give no
// address.
//
// transport 6.5 (3)
func TestSenders(t *testing.T) {
	from := lnet.ProcessID{NID: mustNID(t, "10.0.0.1@tcp"), PID: lnet.PIDLustre}
	for _, h := range []HdrData{0, 34, 63, 1 << 52, 0xfff0000000000000, 1<<52 | 64, 1<<52 | 1<<51, 1<<52 | 1<<32 | 34, 1<<52 | 0xfffff00000022} {
		if a, ok := h.Sender(from); ok || a != (Address{}) {
			t.Errorf("%#x is from %v", uint64(h), a)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := genAddress(true).Draw(t, "address")
		got, ok := MakeHdrData(a).Sender(lnet.ProcessID{NID: a.NID, PID: a.PID})
		if !ok || got != a {
			t.Fatalf("%v became %v, %v", a, got, ok)
		}
	})
}
