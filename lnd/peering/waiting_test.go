package peering

import (
	"slices"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnd"
)

// at is a time in a test, in seconds.
func at(s int) time.Time { return time.Unix(int64(s), 0) }

// crowd returns five messages, and a Waiting to which they were added at the times 0 to 4.
func crowd() (ms []*lnd.Tx, w *Waiting) {
	w = new(Waiting)
	for k := range 5 {
		ms = append(ms, new(lnd.Tx))
		w.Add(ms[k], at(k))
	}
	return ms, w
}

func TestWaitingInOrder(t *testing.T) {
	ms, w := crowd()
	if w.Len() != 5 || !w.Since().Equal(at(0)) || w.Last() != (Waiter{ms[4], at(4)}) {
		t.Errorf("%d messages since %v, the last one %v", w.Len(), w.Since(), w.Last())
	}
	if got := w.Expire(at(1)); !slices.Equal(got, ms[:2]) {
		t.Errorf("expired: %v, want the first two of %v", got, ms)
	}
	if got := w.Expire(at(1)); len(got) > 0 {
		t.Errorf("expired again: %v", got)
	}
	if got := w.Recall(func(m *lnd.Tx) bool { return m == ms[3] }); !slices.Equal(got, ms[3:4]) || w.Last().M != ms[4] {
		t.Errorf("recalled: %v", got)
	}
	w.Renew(at(9))
	if got := w.Expire(at(8)); len(got) > 0 || !w.Since().Equal(at(9)) {
		t.Errorf("expired before their new time, which began at %v: %v", w.Since(), got)
	}
	if got := w.Cancel(); !slices.Equal(got, []*lnd.Tx{ms[2], ms[4]}) {
		t.Errorf("canceled: %v", got)
	}
	if w.Len() != 0 || !w.Since().IsZero() || w.Last() != (Waiter{}) || w.Cancel() != nil || w.Expire(at(99)) != nil {
		t.Errorf("%d are left", w.Len())
	}
}

// Messages that a connection did not accept precede those that came meanwhile. After Cancel they must
// not wait again.
func TestWaitingPutBack(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		ms, w := crowd()
		b := w.Take()
		late := new(lnd.Tx)
		if cancel {
			w.Cancel()
		}
		w.Add(late, at(9))
		if back := w.PutBack(b, 3); back == cancel {
			t.Errorf("canceled: %v, put back: %v", cancel, back)
		}
		want := []*lnd.Tx{late}
		if !cancel {
			want = []*lnd.Tx{ms[3], ms[4], late}
		}
		if got := w.Cancel(); !slices.Equal(got, want) {
			t.Errorf("canceled: %v: %d wait, want %d", cancel, len(got), len(want))
		}
	}
}

// TestWaitingKeepsNothingRecalled: what was recalled is not kept in memory.
func TestWaitingKeepsNothingRecalled(t *testing.T) {
	var w Waiting
	stays := &lnd.Tx{}
	for range 3 {
		w.Add(&lnd.Tx{}, at(0))
	}
	w.Add(stays, at(0))
	w.Recall(func(m *lnd.Tx) bool { return m != stays })
	if left := w.list[:cap(w.list)]; len(w.list) != 1 || left[0].M != stays || left[1].M != nil || left[2].M != nil || left[3].M != nil {
		t.Errorf("%v", left)
	}
}
