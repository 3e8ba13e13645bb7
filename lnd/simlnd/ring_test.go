package simlnd

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestRingIsAQueue compares a ring with a slice.
func TestRingIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring
		var want []byte
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				b := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "bytes"), rapid.IntRange(0, 100).Draw(t, "times"))
				r.append(b)
				want = append(want, b...)
			},
			"take": func(t *rapid.T) {
				got := make([]byte, rapid.IntRange(0, len(want)).Draw(t, "count"))
				r.take(got)
				if !bytes.Equal(got, want[:len(got)]) {
					t.Fatal("took other bytes than were put in")
				}
				want = want[len(got):]
			},
			"trim": func(t *rapid.T) {
				n := rapid.IntRange(0, len(want)).Draw(t, "count")
				r.trim(n)
				want = want[:len(want)-n]
			},
			"flip": func(t *rapid.T) {
				if len(want) > 0 {
					k := rapid.IntRange(0, len(want)-1).Draw(t, "at")
					r.flip(k, 0x10)
					want[k] ^= 0x10
				}
			},
			"": func(t *rapid.T) {
				if r.n != len(want) {
					t.Fatalf("%d bytes, want %d", r.n, len(want))
				}
			},
		})
	})
}
