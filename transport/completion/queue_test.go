package completion

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/lnetd/lnetd/transport"
)

// numbered returns completion i.
func numbered(i int) *transport.Completion {
	return &transport.Completion{Token: token, Sequence: uint32(i), Length: i, Final: true}
}

// token is the token of the completions of these tests.
var token = new(int)

// reapAll reaps all completions, a few at a time.
func reapAll(q *Queue) (numbers []int) {
	var dst [3]transport.Completion
	for {
		n := q.Reap(dst[:])
		if n == 0 {
			return numbers
		}
		for _, c := range dst[:n] {
			numbers = append(numbers, c.Length)
		}
	}
}

// The smallest queue: room for exactly one completion.
//
// transport-tests O (111)
// transport 7.1
func TestQueueOfOne(t *testing.T) {
	q := New(1)
	if q.Pending() || reapAll(q) != nil {
		t.Error("a new queue is not empty")
	}
	for i := range 100 {
		q.Push(numbered(i))
		if !q.Pending() {
			t.Fatal("nothing is pending")
		}
		if got := reapAll(q); len(got) != 1 || got[0] != i {
			t.Fatalf("reaped %v, not %d", got, i)
		}
		if q.Pending() || reapAll(q) != nil {
			t.Fatal("it is not empty again")
		}
	}
	if q.Overruns() != 0 {
		t.Errorf("%d overruns", q.Overruns())
	}
}

// A completion without a credit is never lost. In builds with the race detector it causes a panic.
//
// transport-tests O (111)
// transport 6.9 (2), 7.1
func TestOverrun(t *testing.T) {
	q := New(20)
	for i := range 20 {
		q.Push(numbered(i))
	}
	panicked := func() (p bool) {
		defer func() { p = recover() != nil }()
		q.Push(numbered(20))
		return false
	}()
	if panicked != raceEnabled {
		t.Errorf("panicked: %v; race detector: %v", panicked, raceEnabled)
	}
	if raceEnabled {
		return
	}
	for i := 21; i < 100; i++ {
		q.Push(numbered(i))
	}
	if q.Overruns() != 80 {
		t.Errorf("%d overruns, not 80", q.Overruns())
	}
	for i, got := range reapAll(q) {
		if got != i {
			t.Fatalf("completion %d is number %d", i, got)
		}
	}
}

// With any pushes, reaps and growth, completions come out in order, and Pending agrees. The ring wraps
// around many times.
//
// transport-tests O (112)
// transport 7.1
// r.net.xprt.lnet.growable-event-queue
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(0, 40).Draw(t, "room")
		q := New(room)
		var pushed, reaped int
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				for range rapid.IntRange(0, room-(pushed-reaped)).Draw(t, "push") {
					q.Push(numbered(pushed))
					pushed++
				}
			case 2, 3:
				dst := make([]transport.Completion, rapid.IntRange(0, 50).Draw(t, "reap"))
				n := q.Reap(dst)
				if n != min(len(dst), pushed-reaped) {
					t.Fatalf("reaped %d; there was room for %d, and there were %d", n, len(dst), pushed-reaped)
				}
				for _, c := range dst[:n] {
					if c.Length != reaped {
						t.Fatalf("number %d came instead of %d", c.Length, reaped)
					}
					reaped++
				}
			case 4:
				n := rapid.IntRange(0, 200).Draw(t, "grow")
				q.Grow(n)
				room = max(room, n)
			}
			if q.Pending() != (pushed > reaped) {
				t.Fatalf("pending: %v; %d were pushed, %d reaped", q.Pending(), pushed, reaped)
			}
		}
	})
}

// Completions of the TM itself use no credits of ops and a bounded amount of memory. The report that the
// Core is gone is always accepted.
//
// transport 7.1
func TestPushTM(t *testing.T) {
	q := New(16)
	for i := range 16 {
		q.Push(numbered(i))
	}
	lost := transport.Completion{Err: errors.New("lost")}
	told := 0
	for range 1000 {
		if q.PushTM(&lost) {
			told++
		}
	}
	if told == 0 || told > 100 {
		t.Errorf("told %d times", told)
	}
	if !q.PushTM(&transport.Completion{Down: true}) {
		t.Error("that the Core is gone was dropped")
	}
	if got := reapAll(q); len(got) != 16+told+1 {
		t.Errorf("reaped %d completions", len(got))
	}
	if !q.PushTM(&lost) {
		t.Error("there is no room again")
	}
	if q.Overruns() != 0 {
		t.Errorf("%d overruns", q.Overruns())
	}
}

// The ring keeps no reference to reaped completions.
func TestReapClearsSlots(t *testing.T) {
	q := New(4)
	q.Push(numbered(1))
	reapAll(q)
	for i, c := range q.ring {
		if c.Token != nil {
			t.Errorf("place %d still has its token", i)
		}
	}
}

// A closed queue is empty, accepts nothing, and ends every Wait.
func TestClose(t *testing.T) {
	q := New(4)
	q.Push(numbered(1))
	q.Close()
	q.Push(numbered(2))
	q.PushTM(&transport.Completion{Down: true})
	if q.Pending() || reapAll(q) != nil {
		t.Error("a closed queue has completions")
	}
	q.Wait(never)
	q.Wait(never)
	q.Grow(100)
	q.Close()
}

// One producer and one reaper, while another goroutine calls Grow: no completion is lost, duplicated or out
// of order. The producer has credits, like the engine.
//
// transport-tests O (113)
// transport 7.1
// r.net.xprt.lnet.growable-event-queue
func TestOneProducer(t *testing.T) {
	rounds := 1_000_000
	if testing.Short() {
		rounds = 100_000
	}
	q := New(3)
	credits := make(chan int, 1000)
	credits <- 3
	go func() {
		room := 3
		for i := 0; i < rounds; {
			for range min(<-credits, rounds-i) {
				q.Push(numbered(i))
				i++
			}
			if i > rounds/2 && room < 100 {
				room++
				q.Grow(room)
				credits <- 1
			}
		}
	}()
	dst := make([]transport.Completion, 32)
	for reaped := 0; reaped < rounds; {
		q.Wait(never)
		n := q.Reap(dst)
		for _, c := range dst[:n] {
			if c.Length != reaped {
				t.Fatalf("number %d came instead of %d", c.Length, reaped)
			}
			reaped++
		}
		if n > 0 {
			credits <- n
		}
	}
	if q.Pending() || q.Overruns() != 0 {
		t.Errorf("pending: %v, overruns: %d", q.Pending(), q.Overruns())
	}
}

// Several goroutines call Grow while completions are pushed and reaped. The room is the largest value
// requested, and no completion is lost or out of order.
//
// transport 7.1
// r.net.xprt.lnet.growable-event-queue
func TestConcurrentGrow(t *testing.T) {
	const most = 5000
	q := New(100)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := 100 + g; n <= most; n += 4 {
				q.Grow(n)
			}
		})
	}
	dst := make([]transport.Completion, 64)
	for round := range 1000 {
		for i := range 64 {
			q.Push(numbered(64*round + i))
		}
		for i, c := range dst[:q.Reap(dst)] {
			if c.Length != 64*round+i {
				t.Fatalf("number %d came instead of %d", c.Length, 64*round+i)
			}
		}
	}
	wg.Wait()
	q.Grow(10)
	for i := range most {
		q.Push(numbered(i))
	}
	if got := reapAll(q); len(got) != most || q.Overruns() != 0 {
		t.Errorf("reaped %d, %d overruns", len(got), q.Overruns())
	}
}

// Several producers: the completions of each keep their order.
//
// transport 7.1
func TestManyProducers(t *testing.T) {
	const producers, rounds = 8, 20_000
	q := New(producers)
	var credits [producers]chan struct{}
	var wg sync.WaitGroup
	for p := range producers {
		credits[p] = make(chan struct{}, 1)
		wg.Go(func() {
			for i := range rounds {
				q.Push(&transport.Completion{Token: token, Offset: p, Length: i})
				<-credits[p]
			}
		})
	}
	var next [producers]int
	dst := make([]transport.Completion, 5)
	for reaped := 0; reaped < producers*rounds; {
		q.Wait(never)
		n := q.Reap(dst)
		for _, c := range dst[:n] {
			if c.Length != next[c.Offset] {
				t.Fatalf("producer %d: number %d came instead of %d", c.Offset, c.Length, next[c.Offset])
			}
			next[c.Offset]++
			credits[c.Offset] <- struct{}{}
		}
		reaped += n
	}
	wg.Wait()
	if q.Pending() || q.Overruns() != 0 {
		t.Errorf("pending: %v, overruns: %d", q.Pending(), q.Overruns())
	}
}

// No allocation per completion, whether the reaper polls or sleeps.
func TestQueueDoesNotAllocate(t *testing.T) {
	q := New(8)
	dst := make([]transport.Completion, 8)
	c := numbered(1)
	deadline := soon()
	if n := testing.AllocsPerRun(1000, func() {
		for range 5 {
			q.Push(c)
		}
		q.Wait(deadline)
		q.Reap(dst)
	}); n != 0 {
		t.Errorf("%v allocations to push, wait and reap", n)
	}
	answers := New(1)
	go func() {
		dst := make([]transport.Completion, 1)
		for {
			q.Wait(deadline)
			if n := q.Reap(dst); n > 0 {
				if dst[0].Final {
					answers.Push(&dst[0])
					continue
				}
				return
			}
		}
	}()
	if n := testing.AllocsPerRun(1000, func() {
		q.Push(c)
		for answers.Reap(dst) == 0 {
			answers.Wait(deadline)
		}
	}); n != 0 {
		t.Errorf("%v allocations to go to another goroutine and back", n)
	}
	q.Push(&transport.Completion{Token: token})
	for q.Pending() {
		runtime.Gosched()
	}
}
