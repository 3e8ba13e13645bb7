package transport

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Each queue has its own statistics. ResetStats returns the previous values.
//
// transport-tests D (32)-(33)
// transport 3.12 (1)
func TestStats(t *testing.T) {
	withFixture(t, nil, func(w *fixture) {
		for _, n := range []int{10, 30, 20} {
			b := w.added(PassiveBulkRecv)
			w.fake.finish(b, n)
			synctest.Wait()
		}
		b := w.added(MsgRecv)
		w.fake.finish(b, 5)
		synctest.Wait()
		passive := Stats{Adds: 3, Successes: 3, Bytes: 60, MaxBytes: 30}
		receive := Stats{Adds: 1, Successes: 1, Bytes: 5, MaxBytes: 5}
		all := [QueueTypes]Stats{PassiveBulkRecv: passive, MsgRecv: receive}
		if got := w.tm.AllStats(); got != all {
			t.Errorf("stats are %+v", got)
		}
		if got := w.tm.ResetStats(PassiveBulkRecv); got != all {
			t.Errorf("reset of one returned %+v", got)
		}
		all[PassiveBulkRecv] = Stats{}
		if got := w.tm.ResetStats(); got != all {
			t.Errorf("after the reset of one, the reset of all returned %+v", got)
		}
		if got := w.tm.AllStats(); got != [QueueTypes]Stats{} {
			t.Errorf("after the reset of all they are %+v", got)
		}
		if w.tm.Stats(QueueTypes) != (Stats{}) || w.tm.QueueLength(QueueTypes) != 0 {
			t.Error("a queue that there is not has figures")
		}
	})
}

// Statistics that are reset while they grow appear in exactly one of the results.
//
// transport 3.12 (3)
func TestResetLosesNothing(t *testing.T) {
	prepare := func(w *fixture) {
		w.core.wrap = func(tm *fakeTM) CoreTM { return steadyTM{tm, 0} }
	}
	withFixture(t, prepare, func(w *fixture) {
		const rounds = 3000
		b := w.buffer(PassiveBulkSend)
		ended := make(chan bool)
		b.Data = ended
		w.on = func(*BufferEvent) { ended <- true }
		var sum Stats
		count := func(q QueueType) {
			s := w.tm.ResetStats(q)[q]
			sum.Adds, sum.Successes, sum.Bytes = sum.Adds+s.Adds, sum.Successes+s.Successes, sum.Bytes+s.Bytes
		}
		var over atomic.Bool
		go func() {
			for range rounds {
				w.ok(w.tm.Add(b))
				<-ended
			}
			over.Store(true)
		}()
		for last := false; !last; {
			last = over.Load()
			count(b.Queue)
		}
		if want := (Stats{Adds: rounds, Successes: rounds, Bytes: rounds * 8192}); sum != want {
			t.Errorf("answers add up to %+v, want %+v", sum, want)
		}
	})
}
