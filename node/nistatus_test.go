package node_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/node"
)

// Given an NI whose status changes and whose reasons change without its status, its time is that of the last change of
// the status, or at first that at which it was added.
func TestSinceWhenAnNIHasItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		added := time.Now()
		r := newRails(t, static(), 2, 1)
		health := func(value int) {
			if err := r.a.Admin().SetNIHealth(r.na[1], value); err != nil {
				t.Fatal(err)
			}
		}
		port := r.ports[r.na[1]]
		want := added
		for _, step := range []struct {
			name    string
			change  func()
			changes bool // the status
		}{
			{"nothing", func() {}, false},
			{"the link goes down", func() { port.setLink(lnd.LinkDown) }, true},
			{"the health is 0 too", func() { health(0) }, false},
			{"the link comes back", func() { port.setLink(lnd.LinkUp) }, false},
			{"the health is back", func() { health(node.MaxHealth) }, true},
			{"the same link state again", func() { port.setLink(lnd.LinkUp) }, false},
		} {
			time.Sleep(time.Millisecond) // in simulated time, and before the next recovery ping
			if step.changes {
				want = time.Now()
			}
			step.change()
			if got := r.a.NIs()[2]; !got.Since.Equal(want) {
				t.Errorf("%s: since %v, want %v, %+v", step.name, got.Since.Sub(added), want.Sub(added), got.Down)
			}
		}
		if got := r.a.NIs()[1]; !got.Since.Equal(added) {
			t.Errorf("the other NI: since %v", got.Since.Sub(added))
		}
	})
}
