package shared

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// never means no deadline. past is a deadline that has passed.
var never, past = time.Time{}, time.Unix(2, 0)

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

// end is one of the two ends of a pair of lanes, with random delays.
type end struct {
	in, out lane
	random  *rand.Rand
}

func ends(h *Host, c *Client) (host, client end) {
	both := lanes(h, c, 256)
	return end{both[0], both[1], rand.New(rand.NewPCG(1, 1))}, end{both[1], both[0], rand.New(rand.NewPCG(2, 2))}
}

// send puts n, and wakes the other end if it sleeps.
func (e *end) send(n uint32) error {
	if ok, err := e.out.put(n); !ok {
		return fmt.Errorf("no room for %d: %w", n, err)
	}
	delay(e.random)
	e.out.producer.Publish()
	delay(e.random)
	if w := e.out.producer.Claim(); w != 0 {
		delay(e.random)
		e.out.producer.Wake(w)
	}
	return nil
}

// receive waits for n.
func (e *end) receive(want uint32) error {
	for {
		delay(e.random)
		n, ok, err := e.in.next()
		e.in.consumer.Release()
		switch {
		case err != nil:
			return err
		case ok && n != want:
			return fmt.Errorf("%d came, not %d", n, want)
		case ok:
			return nil
		}
		if err := e.in.consumer.Wait(never); err != nil {
			return err
		}
	}
}

// A goroutine at each end passes an entry back and forth, each after a random time, so that entries arrive
// at every point of the other's Wait. No side sleeps forever, no entry is lost or duplicated, and no side
// is woken more often than it slept.
//
// transport-tests O (115)
// transport 9.6 (1)
func TestNoSleepWithAnEntry(t *testing.T) {
	rounds := uint32(100_000)
	if testing.Short() {
		rounds = 10_000
	}
	h, c := newPair(t, 4, 4)
	host, client := ends(h, c)
	result := make(chan error, 2)
	go func() {
		for n := range rounds {
			if err := errors.Join(host.receive(n), host.send(n)); err != nil {
				result <- err
				return
			}
		}
		result <- nil
	}()
	go func() {
		for n := range rounds {
			if err := errors.Join(client.send(n), client.receive(n)); err != nil {
				result <- err
				return
			}
		}
		result <- nil
	}()
	for range 2 {
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []end{host, client} {
		if p, q := e.out.producer.Stats(), e.in.consumer.Stats(); p.Put != uint64(rounds) || q.Released != uint64(rounds) {
			t.Errorf("%+v, %+v", p, q)
		}
	}
	checkRung(t, host.out, client.in)
	checkRung(t, client.out, host.in)
}

// checkRung checks that only announced sleeps caused wake-ups, and that no unexpected token was read.
func checkRung(t *testing.T, out, in lane) {
	t.Helper()
	if p, q := out.producer.Stats(), in.consumer.Stats(); p.Wakeups > q.Sleeps || q.Reads > p.Wakeups {
		t.Errorf("%+v, %+v", p, q)
	}
}

// One side puts entries in batches as fast as there is room, and the other removes them. All arrive in
// order, each once.
func TestStreamOfEntries(t *testing.T) {
	const entries = 50_000
	h, c := newPair(t, 64, 16)
	random := rand.New(rand.NewPCG(4, 4))
	for _, l := range lanes(h, c, 256) {
		var wg sync.WaitGroup
		wg.Go(func() {
			r := rand.New(rand.NewPCG(3, 3))
			for n := uint32(0); n < entries; {
				for range r.IntN(70) {
					if ok, err := l.put(n); err != nil {
						panic(err)
					} else if !ok || n == entries {
						break
					}
					n++
				}
				l.producer.Publish()
				l.producer.Ring()
				runtime.Gosched()
			}
		})
		for want := uint32(0); want < entries; {
			n, ok, err := l.next()
			switch {
			case err != nil:
				t.Fatal(err)
			case !ok && random.IntN(100) != 0:
				l.consumer.Release()
				runtime.Gosched()
			case !ok:
				l.consumer.Release()
				if err := l.consumer.Wait(never); err != nil {
					t.Fatal(err)
				}
			case n != want:
				t.Fatalf("%d came, not %d", n, want)
			default:
				want++
			}
		}
		wg.Wait()
		checkRung(t, l, l)
	}
}

// A producer that puts batches of 100 entries wakes the other side at most once per batch, and never while
// the other side polls. These are the conditions of the specification for few system calls, as far as they
// concern the rings.
func TestFewSystemCalls(t *testing.T) {
	h, c := newPair(t, 256, 64)
	for _, l := range lanes(h, c, 0) {
		for _, sleeps := range []bool{false, true} {
			before := l.producer.Stats()
			for range 100 {
				if sleeps {
					l.consumer.bell.prepareSleep()
				}
				for n := range uint32(64) {
					if ok, err := l.put(n); !ok {
						t.Fatal(err)
					}
				}
				l.producer.Publish()
				l.producer.Ring()
				l.producer.Ring() // by another caller
				for range 64 {
					_, _, _ = l.next()
				}
				l.consumer.Release()
			}
			want := uint64(0)
			if sleeps {
				want = 100
			}
			if rung := l.producer.Stats().Wakeups - before.Wakeups; rung != want {
				t.Errorf("sleeps %v: woken %d times, want %d", sleeps, rung, want)
			}
		}
	}
}

// If Wait finds an entry, it does not announce a sleep. So a producer that continues needs no system call.
//
// transport 9.6 (1)
func TestNoSleepIfWorkIsFound(t *testing.T) {
	h, c := newPair(t, 4, 4)
	for _, l := range lanes(h, c, 0) {
		_, _ = l.put(1)
		l.producer.Publish()
		if err := l.consumer.Wait(never); err != nil {
			t.Error(err)
		}
		if l.producer.Claim() != 0 || l.consumer.Stats().Sleeps != 0 {
			t.Error("he lay down")
		}
	}
}

// both calls f for each direction of a new pair. shut shuts the consumer's end.
func both(t *testing.T, f func(t *testing.T, l lane, shut func())) {
	for i, name := range []string{"Submissions", "Completions"} {
		t.Run(name, func(t *testing.T) {
			h, c := newPair(t, 4, 4)
			f(t, lanes(h, c, 0)[i], []func(){h.Shut, c.Shut}[i])
		})
	}
}

// asleep waits until the consumer has announced that many sleeps.
func asleep(l lane, times uint64) {
	for l.consumer.Stats().Sleeps < times {
		runtime.Gosched()
	}
}

// A call of Wake ends the current Wait, or else the next one, but not both. Shut ends all of them.
func TestWakeAndShut(t *testing.T) {
	both(t, func(t *testing.T, l lane, shut func()) {
		returned := make(chan error)
		go func() {
			for {
				err := l.consumer.Wait(never)
				returned <- err
				if err != nil {
					return
				}
			}
		}()
		for i := range uint64(3) {
			asleep(l, i+1)
			select {
			case err := <-returned:
				t.Fatalf("returned for no reason: %v", err)
			default:
			}
			l.consumer.Wake()
			if err := <-returned; err != nil {
				t.Fatal(err)
			}
		}
		asleep(l, 4)
		shut()
		if err := <-returned; !errors.Is(err, ErrShut) {
			t.Errorf("shut: %v", err)
		}
		shut()
		for _, until := range []time.Time{never, past} {
			if err := l.consumer.Wait(until); !errors.Is(err, ErrShut) {
				t.Errorf("shut before: %v", err)
			}
		}
		l.consumer.Wake()
	})
}

// A Wake before a Wait ends that Wait only. The next one sleeps, even if the wake-up arrives late. A
// consumer that is awake is not woken.
func TestWakeBeforehand(t *testing.T) {
	both(t, func(t *testing.T, l lane, _ func()) {
		for range 3 {
			l.consumer.Wake()
			if err := l.consumer.Wait(never); err != nil {
				t.Fatal(err)
			}
			if l.producer.Claim() != 0 {
				t.Fatal("he is not up")
			}
			returned := make(chan error, 1)
			before := l.consumer.Stats().Sleeps
			go func() { returned <- l.consumer.Wait(never) }()
			asleep(l, before+1)
			for range 1000 { // Wake may cause one more wake-up
				runtime.Gosched()
			}
			if len(returned) != 0 {
				t.Fatal("returned though nothing was there")
			}
			_, _ = l.put(1)
			l.producer.Publish()
			l.producer.Ring()
			if err := <-returned; err != nil || !l.consumer.Pending() {
				t.Fatal(err)
			}
			if n := l.consumer.Stats().Sleeps - before; n > 3 {
				t.Fatalf("lay down %d times", n)
			}
			_, _, _ = l.next()
			l.consumer.Release()
		}
	})
}

// A deadline that has passed ends a Wait immediately, whether the previous Wait had the same deadline, an
// earlier one or no deadline. A future deadline ends the Wait when it is reached, not before. A deadline that
// was not reached does not end the next Wait.
func TestDeadlines(t *testing.T) {
	both(t, func(t *testing.T, l lane, _ func()) {
		for _, until := range []time.Time{past, past, past.Add(1), past} {
			if err := l.consumer.Wait(until); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			until := time.Now().Add(10 * time.Millisecond)
			if err := l.consumer.Wait(until); err != nil || time.Now().Before(until) {
				t.Fatalf("too early: %v", err)
			}
		}
		l.consumer.Wake()
		if err := l.consumer.Wait(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		l.consumer.Wake()
		if err := l.consumer.Wait(never); err != nil {
			t.Fatal(err)
		}
	})
}

// When lnetd closes its end or dies, the Wait of a client returns immediately.
func TestHostIsGone(t *testing.T) {
	h, c := newPair(t, 4, 4)
	l := lanes(h, c, 0)[1]
	returned := make(chan error)
	go func() { returned <- c.Completions.Wait(never) }()
	asleep(l, 1)
	finish(t, h)
	if err := <-returned; !errors.Is(err, ErrGone) || !errors.Is(err, syscall.ESHUTDOWN) {
		t.Errorf("%v", err)
	}
	must[bool](t)(put(&c.Submissions.Producer, 0))
	c.Submissions.Publish()
	c.Submissions.Ring()
}

// Clients that are gone, or that leave tokens unread, do not block lnetd when it wakes them.
func TestUnreadTokens(t *testing.T) {
	h, c := newPair(t, 4, 4)
	for range 10_000 {
		c.Completions.bell.prepareSleep()
		h.Completions.Ring()
	}
	if got := h.Completions.Stats().Wakeups; got != 10_000 {
		t.Errorf("woken %d times", got)
	}
	c.Completions.bell.prepareSleep()
	c.Shut()
	h.Completions.Ring()
	h.Shut()
	h.Completions.Wake(onDescriptor)
}

// A client that manipulates its descriptors, by making them blocking and filling them, blocks lnetd neither
// when it writes tokens nor when it reads them, nor at the end.
func TestBellsSetToBlock(t *testing.T) {
	h, files := newHost(t, 4, 4)
	defer files.Close()
	for _, fd := range []int{files.Submissions, files.Completions} {
		if err := unix.SetNonblock(fd, false); err != nil {
			t.Fatal(err)
		}
	}
	full := ^uint64(0) - 1
	write := func() {
		b := unsafe.Slice((*byte)(unsafe.Pointer(&full)), 8)
		if _, err := unix.Write(files.Submissions, b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.SendmsgN(files.Completions, make([]byte, 100), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err == nil {
		t.Error("a client can leave tokens with lnetd, which does not read them")
	}
	for range 10_000 {
		word(h.memory.Bytes(), offCQSleeping).Store(1)
		h.Completions.Ring()
	}
	returned := make(chan error)
	go func() { returned <- h.Submissions.Wait(never) }()
	for i := range uint64(10) { // each a token without an entry
		for h.Submissions.Stats().Sleeps < i+1 {
			runtime.Gosched()
		}
		write()
	}
	h.Submissions.Wake()
	if err := <-returned; err != nil {
		t.Error(err)
	}
	go func() { returned <- h.Submissions.Wait(never) }()
	h.Shut()
	if err := <-returned; !errors.Is(err, ErrShut) {
		t.Error(err)
	}
}

// A concurrent wake while the end is shut does not write to another file with the same descriptor, and no
// descriptor stays open.
func TestShutWhileWaking(t *testing.T) {
	before := open(t)
	for range 200 {
		h, files, err := format.Create(Sizes{2, 2})
		if err != nil {
			t.Fatal(err)
		}
		c, err := format.Attach(files)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					h.Completions.Wake(onDescriptor)
					c.Submissions.Wake(onDescriptor)
				}
			})
		}
		wg.Go(h.Shut)
		wg.Go(c.Shut)
		wg.Wait()
		finish(t, h, c)
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
}

// A wake after the end was shut does not write to a file that has got the same descriptor number.
func TestWakeAfterShut(t *testing.T) {
	_, c := newPair(t, 2, 2)
	c.Shut()
	next := -1
	for range 64 { // the kernel assigns the lowest free number
		if next = must[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)); next == c.Submissions.bell.descriptor.fd {
			break
		}
		defer shut(next)
	}
	defer shut(next)
	if next != c.Submissions.bell.descriptor.fd {
		t.Fatal("the descriptor was not closed")
	}
	c.Submissions.Wake(onDescriptor)
	if _, err := unix.Read(next, make([]byte, 8)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("somebody else was woken: %v", err)
	}
}

// A wake that was claimed before the end was closed does not access the memory, which is unmapped by then.
// This happens when a client dies while it is being woken.
//
// transport 9.6 (1)
func TestWakeAfterClose(t *testing.T) {
	h, c := newPair(t, 2, 2)
	c.Completions.bell.prepareSleep()
	w := h.Completions.Claim()
	if w != onDescriptor {
		t.Fatalf("claimed %d", w)
	}
	finish(t, h)
	h.Completions.Wake(w)
	h.Completions.Wake(onWord)
	if n := h.Completions.Stats().Wakeups; n != 1 {
		t.Errorf("rung %d times", n)
	}
}

// A consumer that sleeps on the flag is woken there and gets no token, and any other value of the flag, which only
// a client writes that does not follow the protocol, gets a token. No wake-up is claimed twice.
//
// transport 9.6 (1)
func TestWakeupFollowsFlag(t *testing.T) {
	both(t, func(t *testing.T, l lane, _ func()) {
		for value, want := range map[uint32]Wakeup{0: 0, 1: onDescriptor, 2: onWord, 3: 3, 1 << 31: 1 << 31} {
			l.consumer.bell.flag.Store(value)
			if got := l.producer.Claim(); got != want {
				t.Errorf("flag %d: claimed %d, want %d", value, got, want)
			}
			if got := l.producer.Claim(); got != 0 {
				t.Errorf("flag %d: claimed %d again", value, got)
			}
		}
		tokens := func() (n int) {
			t.Helper()
			read := func(fd uintptr) bool {
				for l.consumer.bell.read(fd) {
					n++
				}
				return true
			}
			if err := l.consumer.bell.raw.Read(read); err != nil {
				t.Fatal(err)
			}
			return n
		}
		l.producer.Wake(0)
		l.producer.Wake(onWord)
		if n := tokens(); n != 0 {
			t.Errorf("%d tokens for a sleeper on the flag", n)
		}
		l.producer.Wake(3)
		if n := tokens(); n != 1 {
			t.Errorf("%d tokens for an invalid flag", n)
		}
	})
}

// A client that wakes lnetd whatever the flag is uses the word if lnetd sleeps there, and otherwise a token.
func TestClaimAnyway(t *testing.T) {
	h, c := newPair(t, 4, 4)
	for value, want := range map[uint32]Wakeup{0: onDescriptor, 1: onDescriptor, 2: onWord} {
		h.Submissions.bell.flag.Store(value)
		if got := c.Submissions.ClaimAnyway(); got != want {
			t.Errorf("flag %d: claimed %d, want %d", value, got, want)
		}
		if got := h.Submissions.bell.flag.Load(); got != 0 {
			t.Errorf("flag %d: the flag is %d after the claim", value, got)
		}
	}
}

// withProcessors lets the process use n processors at a time during the test, even if there are fewer.
func withProcessors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// A consumer that sleeps on its flag, with and without polling before, finds every entry. Wake and Shut end its sleep,
// and it notices that lnetd is gone.
//
// transport 9.6 (1)
func TestSleepOnFlag(t *testing.T) {
	for name, poll := range map[string]time.Duration{"sleeping": 0, "polling": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			h, c := newPair(t, 4, 4)
			l := lanes(h, c, 256)[1]
			withProcessors(t, 4)
			l.consumer.SetWaiting(poll, true)
			host, client := ends(h, c)
			sent := make(chan error, 1)
			go func() {
				for n := range uint32(1000) {
					if err := errors.Join(host.receive(n), host.send(n)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			for n := range uint32(1000) {
				if err := errors.Join(client.send(n), client.receive(n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			checkRung(t, l, l)
			returned := make(chan error)
			wait := func() { returned <- l.consumer.Wait(never) }
			before := l.consumer.Stats().Sleeps
			go wait()
			asleep(l, before+1)
			l.consumer.Wake()
			if err := <-returned; err != nil {
				t.Error(err)
			}
			go wait()
			finish(t, h)
			if err := <-returned; !errors.Is(err, ErrGone) {
				t.Errorf("lnetd is gone: %v", err)
			}
			go wait()
			c.Shut()
			if err := <-returned; !errors.Is(err, ErrShut) && !errors.Is(err, ErrGone) {
				t.Errorf("shut: %v", err)
			}
		})
	}
}

// Wait on the flag keeps its deadline, and a hostile value of the flag only makes it look again.
func TestDeadlineOnFlag(t *testing.T) {
	h, c := newPair(t, 4, 4)
	l := lanes(h, c, 0)[1]
	withProcessors(t, 4)
	l.consumer.SetWaiting(0, true)
	for range 20 {
		until := time.Now().Add(time.Millisecond)
		if err := l.consumer.Wait(until); err != nil || time.Now().Before(until) {
			t.Errorf("returned early, or %v", err)
		}
	}
	returned := make(chan error)
	go func() { returned <- l.consumer.Wait(never) }()
	for _, value := range []uint32{0, 1, 2, 3, 1 << 31} {
		asleep(l, l.consumer.Stats().Sleeps)
		l.consumer.bell.flag.Store(value)
		l.producer.Wake(onWord)
	}
	must[bool](t)(l.put(1))
	l.producer.Publish()
	l.producer.Ring()
	l.producer.Wake(onDescriptor) // the flag was overwritten above
	if err := <-returned; err != nil {
		t.Error(err)
	}
}

// A WaitSet sleeps on several flags: it is woken by each client, by Wake, and by the time.
func TestWaitSet(t *testing.T) {
	var s WaitSet
	h1, c1 := newPair(t, 4, 4)
	h2, c2 := newPair(t, 4, 4)
	sleep := func(wake func()) (woken [2]bool) {
		t.Helper()
		s.Begin()
		s.Add(&h1.Submissions)
		s.Add(&h2.Submissions)
		done := make(chan struct{})
		go func() {
			defer close(done)
			wake()
		}()
		s.Sleep(Now() + int64(time.Hour)) // returns at once if the kernel does not support it
		<-done
		s.End()
		return [2]bool{h1.Submissions.Awake(), h2.Submissions.Awake()}
	}
	if got := sleep(c1.Submissions.Ring); got != [2]bool{true, false} {
		t.Errorf("the first client has woken it: %v", got)
	}
	if got := sleep(c2.Submissions.Ring); got != [2]bool{false, true} {
		t.Errorf("the second client has woken it: %v", got)
	}
	if got := sleep(s.Wake); got != [2]bool{} {
		t.Errorf("Wake has woken it: %v", got)
	}
	s.Wake() // has no effect while nothing sleeps
	s.Begin()
	s.Sleep(Now() - 1)
	s.End()
	for _, h := range []*Host{h1, h2} {
		if got := h.Submissions.WaitStats().WordSleeps; got != 3 {
			t.Errorf("%d sleeps", got)
		}
	}
}
