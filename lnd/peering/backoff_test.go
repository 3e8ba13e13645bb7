package peering

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newBackoff() *Backoff { return &Backoff{Min: time.Second, Max: time.Minute} }

// socklnd 7 (4)
func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	b := newBackoff()
	if !b.Ready(noon) {
		t.Fatal("the first attempt must wait")
	}
	for k, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		want *= time.Second
		b.Fail(noon, errClosed, 0)
		if b.Cause != errClosed {
			t.Errorf("the cause is %v", b.Cause)
		}
		if got := b.Next().Sub(noon); got != want {
			t.Errorf("pause after failure %d is %v, want %v", k+1, got, want)
		}
		if b.Ready(noon.Add(want-1)) || !b.Ready(noon.Add(want)) {
			t.Errorf("failure %d: not ready exactly after %v", k+1, want)
		}
	}
}

func TestBackoffJitterLengthensByUpToAQuarter(t *testing.T) {
	for _, jitter := range []float64{0, 0.5, 0.999} {
		b := newBackoff()
		b.Fail(noon, nil, jitter)
		want := time.Second + time.Duration(jitter*float64(time.Second)/4)
		if got := b.Next().Sub(noon); got != want || got > 1250*time.Millisecond {
			t.Errorf("jitter %v: pause %v, want %v", jitter, got, want)
		}
		b.Fail(noon, nil, 0)
		if got := b.Next().Sub(noon); got != 2*time.Second {
			t.Errorf("jitter %v accumulates: the second pause is %v", jitter, got)
		}
	}
}

// socklnd 7 (1)
func TestBackoffStartsAnewAfterAConnection(t *testing.T) {
	b := newBackoff()
	for range 5 {
		b.Fail(noon, nil, 0)
	}
	b.Fail(noon, errClosed, 0)
	b.Reset()
	if b.Cause != nil {
		t.Errorf("the cause is %v after a connection", b.Cause)
	}
	if !b.Ready(noon) || !b.Next().IsZero() {
		t.Error("a connection does not end the pause")
	}
	b.Fail(noon, nil, 0)
	if got := b.Next().Sub(noon); got != time.Second {
		t.Errorf("the pause after it is %v, want 1s", got)
	}
}

// socklnd 7 (2)
func TestBackoffPausesAfterARace(t *testing.T) {
	b := newBackoff()
	for range 3 {
		b.Pause(noon)
		if got := b.Next().Sub(noon); got != time.Second {
			t.Errorf("pause %v, want min_reconnect, however often", got)
		}
	}
}

func TestBackoffEndsAfterThreeRefusalsInARow(t *testing.T) {
	b := newBackoff()
	for k, want := range []bool{false, false, true, true} {
		if got := b.Refused(); got != want {
			t.Errorf("refusal %d: limit reached: %v, want %v", k+1, got, want)
		}
	}
	for name, end := range map[string]func(){
		"a connection":   b.Succeed,
		"a hard failure": func() { b.Fail(noon, nil, 0) },
	} {
		b.Refused()
		b.Refused()
		end()
		if b.Refused() {
			t.Errorf("%s does not end a run of refusals", name)
		}
		b.Succeed()
	}
}
