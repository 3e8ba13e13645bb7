package soak

import (
	"bytes"
	"testing"
)

func TestPlansAreMixed(t *testing.T) {
	pattern := newPattern()
	var kindsSeen [kinds]int
	var total, empty, full int
	const n = 100000
	for seq := range uint64(n) {
		p := planOf(7, seq)
		if p != planOf(7, seq) {
			t.Fatal("a plan changes")
		}
		if b := p.payload(pattern); len(b) != p.size || p.size > maxSize {
			t.Fatalf("plan %+v: %d bytes", p, len(b))
		}
		kindsSeen[p.kind]++
		total += p.size
		switch p.size {
		case 0:
			empty++
		case maxSize:
			full++
		}
	}
	for k, seen := range kindsSeen {
		if seen < n/5 {
			t.Errorf("%s: %d of %d", kind(k), seen, n)
		}
	}
	if empty == 0 || full == 0 || total/n < 10<<10 || total/n > 100<<10 {
		t.Errorf("%d empty, %d full, %d bytes on average", empty, full, total/n)
	}
}

// Unexpected payloads are classified.
func TestPatternDiffersEverywhere(t *testing.T) {
	pattern := newPattern()
	if !bytes.Equal(pattern, newPattern()) {
		t.Fatal("two processes would have different patterns")
	}
	seen := make(map[[8]byte]bool)
	for k := range len(pattern) - 8 {
		word := [8]byte(pattern[k:])
		if seen[word] {
			t.Fatalf("offset %d looks like another one", k)
		}
		seen[word] = true
	}
}
