package message

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/lnet"
)

// Given parameters of BRW tests, then Bytes returns the right length, or an error that names the field.
//
// selftest 4.8 (5), 5 (5)
func TestBRWParameters(t *testing.T) {
	const read, full = BRWRead, uint32(CheckFull)
	for _, test := range []struct {
		p        BRWParameters
		features Features
		want     uint32
		field    string
	}{
		{BRWParameters{Op: read, Flags: full, Length: 8}, 1, 8, ""},
		{BRWParameters{Op: BRWWrite, Flags: 1, Length: 1 << 20}, 1, 1 << 20, ""},
		{BRWParameters{Op: read, Flags: 4, Length: 4088, Offset: 4096*7 + 8}, 1, 4088, ""},
		{BRWParameters{Op: read, Flags: full, Pages: 256}, 0, 1 << 20, ""},
		{BRWParameters{Op: read, Flags: full, Pages: 1, Length: 8}, 0, 4096, ""},
		{BRWParameters{Op: 0, Flags: full, Length: 8}, 1, 0, "opc"},
		{BRWParameters{Op: read, Flags: 5, Length: 8}, 1, 0, "flags"},
		{BRWParameters{Op: read, Flags: full}, 1, 0, "length"},
		{BRWParameters{Op: read, Flags: full, Length: 1}, 1, 0, "length"},
		{BRWParameters{Op: read, Flags: full, Length: 1<<20 + 8}, 1, 0, "length"},
		{BRWParameters{Op: read, Flags: full, Length: 4088, Offset: 4}, 1, 0, "offset"},
		{BRWParameters{Op: read, Flags: full, Length: 4096, Offset: 8}, 1, 0, "offset"},
		{BRWParameters{Op: read, Flags: full}, 0, 0, "pages"},
		{BRWParameters{Op: read, Flags: full, Pages: 257}, 0, 0, "pages"},
		{BRWParameters{Op: read, Flags: full, Pages: 1 << 20}, 0, 0, "pages"},
	} {
		got, err := test.p.Bytes(test.features)
		var e *lnet.FieldError
		if got != test.want || errors.As(err, &e) != (test.field != "") || e != nil && e.Field != test.field {
			t.Errorf("%+v: %d, %v", test.p, got, err)
		}
	}
}

// Given any parameters that Bytes accepts, then they are within the limits of kernels.
//
// selftest 5 (5)
func TestParametersTakenAreHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 4), rapid.Map(rapid.Uint32Range(0, 1<<18), func(n uint32) uint32 { return n * 8 }))
		p := BRWParameters{
			Op: rapid.Uint32Range(0, 3).Draw(t, "op"), Flags: rapid.Uint32Range(0, 5).Draw(t, "flags"),
			Pages: near.Draw(t, "pages"), Length: near.Draw(t, "length"), Offset: near.Draw(t, "offset"),
		}
		n, err := p.Bytes(Features(rapid.Uint32Range(0, 1).Draw(t, "features")))
		if err != nil {
			return
		}
		span := uint64(p.Offset%PageSize) + uint64(n)
		if n%8 != 0 || n < 8 || n > MaxBulk || (span+PageSize-1)/PageSize != (uint64(n)+PageSize-1)/PageSize {
			t.Fatalf("%+v: %d", p, n)
		}
	})
}
