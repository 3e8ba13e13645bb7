package transport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Add waits for the Core if peers access the buffer: once for a batch, and until the next deadline at most.
// Otherwise it does not wait.
//
// transport 9.12
func TestAddWaitsUntilPeersReachTheBuffer(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		var got []time.Duration
		w.core.flush = func(_ *fakeTM, until time.Time) {
			d := time.Duration(0)
			if !until.IsZero() {
				d = time.Until(until)
			}
			got = append(got, d)
		}
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s waits: %s", what, diff)
			}
			got = nil
		}
		w.added(MsgRecv)
		expect("MsgRecv", 0)
		w.added(PassiveBulkRecv)
		expect("PassiveBulkRecv", 0)
		w.added(PassiveBulkSend)
		expect("PassiveBulkSend", 0)
		w.added(MsgSend)
		w.added(ActiveBulkSend)
		w.added(ActiveBulkRecv)
		expect("what looks for others")
		if n, err := w.tm.AddAll(w.buffer(MsgSend), w.buffer(MsgRecv), w.buffer(MsgRecv)); n != 3 {
			t.Error(err)
		}
		expect("a batch", 0)
		b := w.buffer(MsgSend)
		b.Deadline = time.Now().Add(time.Minute)
		w.ok(w.tm.Add(b))
		w.added(MsgRecv)
		expect("beside a deadline", time.Minute)
		b = w.buffer(MsgRecv)
		b.Deadline = time.Now().Add(time.Millisecond)
		w.ok(w.tm.Add(b))
		expect("a short deadline", minFlush)
		if n, err := w.tm.AddAll(w.buffer(MsgSend), b, w.buffer(MsgRecv)); n != 1 || err == nil {
			t.Error(n, err)
		}
		expect("the part of a batch that was taken")
	})
}
