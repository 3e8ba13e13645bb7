package polling

import (
	"runtime"
	"testing"
	"time"
)

var past = time.Unix(1, 0)

// Polling that finds nothing becomes shorter, and stops at last except for a try now and then. Polling that finds
// something becomes longer again. During a rest there is no polling.
func TestPollingAdapts(t *testing.T) {
	restUntil.Store(0)
	t.Cleanup(func() { restUntil.Store(0) })
	const most = 16 * time.Second
	var p Poller
	p.SetTime(most)
	no, yes := func() bool { return false }, func() bool { return true }
	want := func(current time.Duration) {
		t.Helper()
		if p.current != current*time.Second {
			t.Errorf("polls for %v, want %v s", p.current, current)
		}
	}
	poll := func(found func() bool, wantPolled, wantOK bool) {
		t.Helper()
		if polled, ok := p.Poll(past, found); polled != wantPolled || ok != wantOK {
			t.Errorf("polled %v, found %v", polled, ok)
		}
	}
	for _, current := range []time.Duration{8, 4, 2, 1, 0} {
		poll(no, true, false)
		want(current)
	}
	for range waitsPerTry - 1 {
		poll(yes, false, false)
	}
	poll(no, true, false)
	want(8)
	p.SetTime(most) // changes nothing
	want(8)
	p.current = time.Second
	for _, current := range []time.Duration{2, 4, 8, 16, 16} {
		poll(yes, true, true)
		want(current)
	}
	rest(time.Now())
	poll(yes, false, false)
	restUntil.Store(0)
	poll(yes, true, true)
	p.SetTime(-1)
	poll(yes, false, false)
}

// Polling that takes much longer than requested begins a rest, and the time to poll stays as it is.
func TestLatePolling(t *testing.T) {
	restUntil.Store(0)
	t.Cleanup(func() { restUntil.Store(0) })
	const most = time.Millisecond
	var p Poller
	p.SetTime(most)
	now := started.Add(time.Hour)
	if d := p.Time(now); d != most {
		t.Fatalf("polls for %v, want %v", d, most)
	}
	late := now.Add(most + 2*longYield)
	p.Record(false, now, late)
	for after, want := range map[time.Duration]time.Duration{0: 0, restTime - 1: 0, restTime: most} {
		if d := p.Time(late.Add(after)); d != want {
			t.Errorf("polls for %v after %v, want %v", d, after, want)
		}
	}
}

// There are fewer places than processors.
func TestPlacesAreFew(t *testing.T) {
	before := runtime.GOMAXPROCS(3)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	acquired := 0
	for range 5 {
		if Acquire() {
			acquired++
		}
	}
	for range acquired {
		Release()
	}
	if acquired != 2 {
		t.Errorf("%d places, want 2", acquired)
	}
	runtime.GOMAXPROCS(1)
	if Acquire() {
		t.Error("a place although there is one processor only")
	}
}
