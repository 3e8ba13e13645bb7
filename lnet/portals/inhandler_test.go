package portals

import (
	"testing"

	"github.com/lnetd/lnetd/lnet"
)

// InHandler returns true in a handler and in functions that it calls, at any depth, for its
// own table and for others. It returns false in goroutines that a handler starts, and in
// the caller that caused the event.
func TestInHandler(t *testing.T) {
	if InHandler() {
		t.Error("no handler runs")
	}
	var deep func(depth int) bool
	deep = func(depth int) bool {
		if depth > 0 {
			return deep(depth-1) && depth >= 0
		}
		return InHandler()
	}
	spawned := make(chan func(), 1)
	table := New(Config{Cookie: 1, Spawn: func(run func()) { spawned <- run }})
	events := 0
	var h lnet.Handle
	again := drainMax + 1 // the last one runs in a goroutine of Spawn
	h, err := table.Bind(MD{Threshold: Unlimited, Handler: HandlerFunc(func(*Event) {
		events++
		for _, depth := range []int{0, 1, 61, 62, 63, 64, 65, 127, 128, 1000} {
			if !deep(depth) {
				t.Errorf("event %d: not in a handler, %d calls deep", events, depth)
			}
		}
		other := make(chan bool)
		go func() { other <- InHandler() }()
		if <-other {
			t.Error("a goroutine of the handler's is taken for the handler")
		}
		if again--; again >= 0 {
			begun(t, table, h)
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	begun(t, table, h)
	(<-spawned)()
	if events != drainMax+2 {
		t.Errorf("%d events, want %d", events, drainMax+2)
	}
	if deep(100) {
		t.Error("the handler has returned")
	}
}

// begun makes a request from an MD. The request leaves at once.
func begun(t *testing.T, table *Table, h lnet.Handle) {
	t.Helper()
	var o Operation
	if _, err := table.Begin(h, &o, Begin{Type: lnet.MsgPut}); err != nil {
		t.Fatal(err)
	}
	table.Finish(&o, nil)
}

func BenchmarkInHandler(b *testing.B) {
	for b.Loop() {
		if InHandler() {
			b.Fatal("no handler runs")
		}
	}
}
