package completion

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/transport"
)

// never means no deadline.
var never time.Time

// soon returns a deadline that these tests never reach.
func soon() time.Time { return time.Now().Add(time.Hour) }

// schedule runs the steps of a consumer, of producers and of callers of forceWake on one bell, in an order
// chosen by rapid. The consumer's sleep is a step that is possible while there is a token.
type schedule struct {
	bell bell
	// put is the number of things added and not found yet. forced is the number of forceWake calls begun,
	// and forcedAtWake its value when the consumer last got up.
	put                  int
	forced, forcedAtWake int
	consumer             int
	producers            []int
}

// Steps of the consumer: prepareSleep, check, sleep, finishSleep.
const (
	stepPrepareSleep = iota
	stepCheck
	stepSleep
	stepFinishSleep
)

func (s *schedule) consume() (did bool) {
	switch s.consumer {
	case stepPrepareSleep:
		s.bell.prepareSleep()
		s.consumer = stepCheck
	case stepCheck:
		s.consumer = stepSleep
		if s.put > 0 || s.bell.woken.Load() {
			s.consumer = stepFinishSleep
		}
	case stepSleep:
		if len(s.bell.tokens) == 0 {
			return false
		}
		s.bell.sleep(nil)
		s.consumer = stepPrepareSleep // check again
	case stepFinishSleep:
		s.bell.finishSleep()
		s.put, s.forcedAtWake = 0, s.forced
		s.consumer = stepPrepareSleep
	}
	return true
}

// produce performs one step of producer p: add something (or call forceWake), claim, wake.
func (s *schedule) produce(p int) {
	switch s.producers[p] {
	case 0: // put
		s.put++
		s.producers[p] = 2
	case 1: // forceWake
		s.bell.woken.Store(true)
		s.forced++
		s.producers[p] = 2
	case 2: // claim
		s.producers[p] = 4
		if s.bell.claimSleeper() {
			s.producers[p] = 3
		}
	case 3:
		s.bell.sendToken()
		s.producers[p] = 4
	}
}

// In any order of the steps of both sides: when all producers have finished, the consumer does not sleep
// although something was added or forceWake was called.
//
// transport-tests O (115)
// transport 9.6 (1)
func TestEveryOrderOfSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &schedule{bell: newBell()}
		s.producers = rapid.SliceOfN(rapid.IntRange(0, 1), 1, 6).Draw(t, "producers")
		for {
			var able []int // producers that can continue
			for p, step := range s.producers {
				if step < 4 {
					able = append(able, p)
				}
			}
			if len(able) == 0 {
				break
			}
			who := rapid.IntRange(-len(able), len(able)-1).Draw(t, "who")
			if who < 0 {
				s.consume()
			} else {
				s.produce(able[who])
			}
		}
		for range 20 {
			if !s.consume() {
				break
			}
		}
		if s.consumer != stepSleep || s.put > 0 {
			t.Fatalf("the consumer sleeps on %d things (step %d)", s.put, s.consumer)
		}
		if s.forcedAtWake < s.forced {
			t.Fatalf("%d shouts, of which %d were heard", s.forced, s.forcedAtWake)
		}
	})
}

// A consumer that does not sleep is sent no token.
//
// transport 9.6 (1)
func TestPollingConsumerIsNotWoken(t *testing.T) {
	q := New(100)
	q.Wait(time.Now()) // has slept once
	for i := range 100 {
		q.Push(numbered(i))
	}
	if len(q.bell.tokens) != 0 {
		t.Error("a push sent a token to a consumer that is up")
	}
	q.Wait(never)
	if len(q.bell.tokens) != 0 {
		t.Error("Wait left a token though there was no need to sleep")
	}
}

// delay waits for a random time.
func delay(r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		runtime.Gosched()
	case 1:
		for range r.IntN(200) {
			_ = r.Uint64()
		}
	}
}

// A consumer and a producer take turns, with each step of the protocol delayed at random. Neither waits
// forever.
//
// transport-tests O (115)
// transport 9.6 (1)
func TestDelaysAtEachStep(t *testing.T) {
	rounds := 100_000
	if testing.Short() {
		rounds = 10_000
	}
	b := newBell()
	var put, found atomic.Int64
	go func() {
		r := rand.New(rand.NewPCG(1, 1))
		for i := range rounds {
			delay(r)
			put.Add(1)
			delay(r)
			if b.claimSleeper() {
				delay(r)
				b.sendToken()
			}
			for r.IntN(2) == 0 && found.Load() < int64(i) {
				runtime.Gosched() // so that the consumer sleeps often
			}
		}
	}()
	r := rand.New(rand.NewPCG(2, 2))
	var seen int64
	for seen < int64(rounds) {
		for {
			b.prepareSleep()
			delay(r)
			if n := put.Load(); n > seen {
				seen = n
				break
			}
			delay(r)
			b.sleep(nil)
		}
		delay(r)
		b.finishSleep()
		found.Store(seen)
	}
}

// A call of Wake ends the current Wait, or else the next one, but not both.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(4)
		var returned atomic.Int64
		go func() {
			for range 3 {
				q.Wait(never)
				returned.Add(1)
			}
		}()
		for i := range int64(3) {
			synctest.Wait()
			if returned.Load() != i {
				t.Fatalf("%d waits have returned, not %d", returned.Load(), i)
			}
			q.Wake()
		}
		synctest.Wait()
		if returned.Load() != 3 {
			t.Fatalf("%d waits have returned, not 3", returned.Load())
		}
		q.Wake() // before the Wait that it ends
		q.Wait(never)
	})
}

// A deadline ends a Wait on time, whether it is the same as the previous one, earlier, later, or past. A
// push ends the Wait earlier. A deadline that was not reached does not end the next Wait.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(4)
		start := time.Now()
		at := func(d time.Duration) {
			t.Helper()
			if got := time.Since(start); got != d {
				t.Fatalf("it is %v, not %v", got, d)
			}
		}
		q.Wait(start.Add(time.Second))
		at(time.Second)
		q.Wait(start.Add(time.Second)) // past
		q.Wait(start)
		at(time.Second)
		q.Wait(start.Add(2 * time.Second))
		at(2 * time.Second)

		later := func(d time.Duration) { time.Sleep(d); q.Push(numbered(1)) }
		go later(time.Second)
		q.Wait(start.Add(time.Minute))
		at(3 * time.Second)
		reapAll(q)
		go later(time.Second)
		q.Wait(start.Add(time.Minute)) // the same again
		at(4 * time.Second)
		reapAll(q)
		q.Wait(start.Add(10 * time.Second)) // an earlier one
		at(10 * time.Second)
		q.Wait(start.Add(time.Minute))
		at(time.Minute)

		go later(time.Hour)
		q.Wait(never)
		at(time.Minute + time.Hour)
	})
}

// Two goroutines pass one completion back and forth through queues, each at a random moment, so that pushes
// happen at every point of the other goroutine's Wait. Neither goroutine waits forever.
//
// transport-tests O (115)
// transport 9.6 (1)
func TestNoSleepWithACompletion(t *testing.T) {
	rounds := 100_000
	if testing.Short() {
		rounds = 20_000
	}
	q, answers := New(1), New(1)
	play := func(seed uint64, in, out *Queue) {
		r := rand.New(rand.NewPCG(seed, seed))
		dst := make([]transport.Completion, 1)
		for i := range rounds {
			for in.Reap(dst) == 0 {
				in.Wait(never)
			}
			for range r.IntN(100) {
				_ = r.Uint64()
			}
			out.Push(numbered(i))
		}
	}
	go play(1, q, answers)
	q.Push(numbered(0))
	play(2, answers, q)
}

// If a timer expires early, as it does when the wall clock was set back and the deadline is based on it,
// the next Wait still has a timer.
//
// transport 3.9 (3)
func TestEarlyTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1)
		start := time.Now()
		until := start.Add(time.Minute).Round(0)
		q.timer, q.timerDeadline = time.NewTimer(time.Second), until
		for _, want := range []time.Duration{time.Second, time.Minute, time.Minute} {
			q.Wait(until)
			if got := time.Since(start); got != want {
				t.Fatalf("woken after %v, want %v", got, want)
			}
		}
	})
}
