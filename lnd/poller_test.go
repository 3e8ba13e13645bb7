package lnd_test

import (
	"testing"

	"github.com/lnetd/lnetd/lnd"
)

// TestWait checks that the end of a wait wakes its sleepers, and that no goroutine can sleep after it.
func TestWait(t *testing.T) {
	var w lnd.Wait
	woken := 0
	s := lnd.Sleeper{Wake: func() { woken++ }}
	w.Wake() // without a sleeper
	if !w.Sleep(&s) || w.Over() {
		t.Error("it is over, and has not begun")
	}
	if !w.End() || w.End() || !w.Over() {
		t.Error("it does not end once")
	}
	w.Wake()
	w.Rise()
	w.Wake()
	if w.Sleep(&s) {
		t.Error("somebody sleeps for what is over")
	}
	w.Wake()
	w.Reset()
	if w.Over() || !w.Sleep(&s) {
		t.Error("another does not begin")
	}
	if woken != 1 {
		t.Errorf("woken %d times, want once", woken)
	}
}
