package soak

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A message that was acknowledged but has not arrived completely is lost. A message without an ACK
// may be missing.
func TestLostMessagesAreFound(t *testing.T) {
	a, r := newSentRecord(), newArrivedRecord()
	var settled *bitmap
	for range pageSize {
		seq := a.begin()
		switch seq % 1000 {
		case 1: // cut short, but acknowledged
			if err := r.arrived(seq, false); err != nil {
				t.Fatal(err)
			}
		case 2, 3: // never arrived; 2 acknowledged, 3 not
		default:
			if err := r.arrived(seq, true); err != nil {
				t.Fatal(err)
			}
		}
		if settled != nil {
			t.Fatal("settled before the last has ended")
		}
		settled = a.end(seq, seq%1000 != 3)
	}
	if settled == nil {
		t.Fatal("not settled")
	}
	n, lost := r.compare(0, settled, noon)
	var want []uint64
	for seq := range uint64(pageSize) {
		if seq%1000 == 1 || seq%1000 == 2 {
			want = append(want, seq)
		}
	}
	if n != pageSize-(pageSize+996)/1000 || !slices.Equal(lost, want) {
		t.Errorf("%d acknowledged, lost %v, want %v", n, lost, want)
	}
	if rest, begun := a.remaining(); len(rest) != 0 || begun != pageSize {
		t.Errorf("%d pages left of %d messages", len(rest), begun)
	}
}

func TestWhatComesTwiceIsFound(t *testing.T) {
	for _, whole := range []bool{false, true} {
		r := newArrivedRecord()
		if err := r.arrived(70000, whole); err != nil {
			t.Fatal(err)
		}
		if err := r.arrived(70000, true); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("again: %v", err)
		}
	}
}

// Settled pages are removed, in any order. A message for a removed page is an error.
func TestSettledPagesGo(t *testing.T) {
	r := newArrivedRecord()
	at := noon
	for _, page := range []uint64{1, 0, 3, 2, 4} {
		if _, lost := r.compare(page, new(bitmap), at); lost != nil {
			t.Errorf("page %d: lost %v", page, lost)
		}
		at = at.Add(pageRetention)
	}
	// 2 was settled one linger ago, 4 just now.
	if len(r.pages) != 2 || r.low != 2 || len(r.removed) != 1 {
		t.Errorf("%d pages, low %d, gone %v", len(r.pages), r.low, r.removed)
	}
	for page, gone := range []bool{true, true, false, true, false, false} {
		if err := r.arrived(uint64(page)*pageSize, true); (err != nil) != gone {
			t.Errorf("a message for page %d: %v, want an error: %v", page, err, gone)
		}
	}
}
