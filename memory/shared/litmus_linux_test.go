package shared

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/memory/polling"
)

// In each pair, both functions store one word and then load the other one. If both loads preceded both
// stores, a wake-up would be lost. This litmus test checks the instructions of the current build. It
// matters most with the race detector, which compiles an atomic store to memory outside of Go's heap
// without a fence.
//
// transport 9.6 (1)
func TestStoreComesBeforeLoad(t *testing.T) {
	rounds := uint32(30_000)
	if testing.Short() {
		rounds = 3_000
	}
	t.Run("Submissions", func(t *testing.T) { bellLitmus(t, 0, rounds) })
	t.Run("Completions", func(t *testing.T) { bellLitmus(t, 1, rounds) })
	t.Run("Posted", func(t *testing.T) {
		h, c := newPair(t, 4, 4)
		var n uint32
		litmus(t, rounds,
			func() {
				c.Submissions.posted.waiting.Store(0)
				n++
			},
			func() bool { return h.Submissions.posted.store(n) },
			func() bool { c.Submissions.PrepareWait(); return c.Submissions.Posted(n) })
	})
}

// bellLitmus is the litmus test of a bell: a producer that publishes and claims, and a consumer that
// announces its sleep and checks.
func bellLitmus(t *testing.T, which int, rounds uint32) {
	h, c := newPair(t, 4, 4)
	l := lanes(h, c, 0)[which]
	litmus(t, rounds,
		func() {
			l.consumer.bell.finishSleep()
			for ok := true; ok; {
				_, ok, _ = l.next()
			}
			l.consumer.Release()
			_, _ = l.put(1)
		},
		func() bool { l.producer.Publish(); return l.producer.Claim() != 0 },
		func() bool { l.consumer.bell.prepareSleep(); return l.consumer.Pending() })
}

// litmus runs both sides concurrently after prepare, repeatedly. At least one of them must see the other. On a busy
// machine a round takes milliseconds, and the sides seldom run at the same time; after enough seconds a hundredth of
// the rounds will do.
func litmus(t *testing.T, rounds uint32, prepare func(), one, other func() bool) {
	t.Helper()
	const enough = 5 * time.Second
	var begun, ended atomic.Uint32
	var saw, stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint32(1); ; n++ {
			await(&begun, n)
			if stop.Load() {
				return
			}
			saw.Store(one())
			ended.Store(n)
		}
	})
	lost, n := 0, uint32(0)
	for start := time.Now(); n < rounds && (n < rounds/100 || time.Since(start) < enough); {
		prepare()
		n++
		begun.Store(n)
		found := other()
		await(&ended, n)
		if !found && !saw.Load() {
			lost++
		}
	}
	stop.Store(true)
	begun.Store(n + 1)
	wg.Wait()
	if lost > 0 {
		t.Errorf("%d of %d times neither side saw the other", lost, n)
	}
}

// await returns when a counter has reached n.
func await(counter *atomic.Uint32, n uint32) {
	for looks := 1; counter.Load() < n; looks++ {
		if looks%256 == 0 {
			polling.Yield()
		}
	}
}
