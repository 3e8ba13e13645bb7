package pattern

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/internal/testing/recording"
	"github.com/lnetd/lnetd/selftest/message"
)

func mismatch(t testing.TB, err error) *MismatchError {
	t.Helper()
	var m *MismatchError
	if !errors.As(err, &m) {
		t.Fatalf("%v, want a mismatch", err)
	}
	return m
}

// Given the two byte orders, when a buffer is filled, then it contains the word as a sender of that order
// stores it.
//
// selftest 5 (2), 5 (7)
func TestFillIsInTheSendersByteOrder(t *testing.T) {
	for order, want := range map[message.Order]string{
		message.LittleEndian: "b3eeb2eeb1eeb0eeb3eeb2eeb1eeb0eeb3ee",
		message.BigEndian:    "eeb0eeb1eeb2eeb3eeb0eeb1eeb2eeb3eeb0",
	} {
		b := make([]byte, 18)
		Fill(b, order)
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%v: %s, want %s", order, got, want)
		}
		if err := Check(b, message.CheckFull, order); err != nil {
			t.Error(err)
		}
		mismatch(t, Check(b, message.CheckSimple, 1-order))
	}
}

// Given recorded bulks of kernels with check=full and check=simple, then all of them pass the check.
//
// selftest 5 (2)
func TestRecordedBulksPass(t *testing.T) {
	bulks := 0
	for _, name := range []string{
		"e-lst-brw-write-1m", "e-lst-brw-write-4k", "f-lst-brw-read-1m", "f-lst-brw-read-4k", "e4-min-bulk-threshold",
	} {
		rec, err := recording.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rec.Conversations {
			units, err := c.Units()
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range units {
				if u.Kind != recording.KindMessage || len(u.Payload) < 512 {
					continue
				}
				bulks++
				if err := Check(u.Payload, message.CheckSimple, message.LittleEndian); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if bulks != 21 {
		t.Errorf("%d bulks, want 21", bulks)
	}
}

// Given a poisoned buffer, when it is not written at all, or only in part, then the check finds the
// place.
//
// selftest 5 (2)
func TestPoisonShowsWhatDidNotCome(t *testing.T) {
	for _, c := range []message.Check{message.CheckSimple, message.CheckFull} {
		b := make([]byte, 3*chunkSize+8)
		Fill(b, message.LittleEndian) // an old bulk
		Poison(b, c)
		if m := mismatch(t, Check(b, c, message.LittleEndian)); m.Got != PoisonWord || m.Offset != 0 {
			t.Errorf("%v: %v", c, m)
		}
		Fill(b[:len(b)-8], message.LittleEndian)
		if m := mismatch(t, Check(b, c, message.LittleEndian)); m.Got != PoisonWord || m.Offset != len(b)-8 {
			t.Errorf("%v: %v", c, m)
		}
	}
	b := bytes.Repeat([]byte{7}, 4096)
	for _, c := range []message.Check{message.CheckNone, message.CheckDiscard} {
		Poison(b, c)
		if err := Check(b, c, message.LittleEndian); err != nil || b[0] != 7 {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Given a bulk with one corrupt word, then a full check reports it. A simple check reports it if it is
// the first or the last word.
//
// selftest 5 (2), 5 (7)
func TestEverySpoiltWordIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.IntRange(1, 3000).Draw(t, "words")
		at := rapid.IntRange(0, words-1).Draw(t, "at") * 8
		order := rapid.SampledFrom([]message.Order{message.LittleEndian, message.BigEndian}).Draw(t, "order")
		b := make([]byte, words*8)
		Fill(b, order)
		b[at+rapid.IntRange(0, 7).Draw(t, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		var m *MismatchError
		if err := Check(b, message.CheckFull, order); !errors.As(err, &m) || m.Offset != at {
			t.Fatalf("full: %v, want it at %d", err, at)
		}
		edge := at == 0 || at == len(b)-8
		if err := Check(b, message.CheckSimple, order); errors.As(err, &m) != edge {
			t.Fatalf("simple, at %d of %d: %v", at, len(b), err)
		}
	})
}

// Given bulks shorter than a word, then filling, poisoning and checking them cause no errors.
func TestShortBulks(t *testing.T) {
	for n := range 8 {
		b := make([]byte, n)
		for c := message.Check(0); c < 6; c++ {
			Fill(b, message.LittleEndian)
			Poison(b, c)
			if err := Check(b, c, message.LittleEndian); err != nil {
				t.Errorf("%d bytes, %v: %v", n, c, err)
			}
		}
	}
}

// The cost of filling and checking a bulk of maximum size.
func BenchmarkPattern(b *testing.B) {
	buf := make([]byte, message.MaxBulk)
	Fill(buf, message.LittleEndian)
	b.Run("fill", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			Fill(buf, message.LittleEndian)
		}
	})
	b.Run("check full", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if Check(buf, message.CheckFull, message.LittleEndian) != nil {
				b.Fatal("mismatch")
			}
		}
	})
	b.Run("check simple", func(b *testing.B) {
		for b.Loop() {
			if Check(buf, message.CheckSimple, message.LittleEndian) != nil {
				b.Fatal("mismatch")
			}
		}
	})
}
