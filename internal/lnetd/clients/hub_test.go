package clients

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// newHubWorld returns a Server with one hub, whatever the number of processors.
func newHubWorld(t *testing.T, poll time.Duration) *world {
	t.Helper()
	return newWorld(t, func(c *Config) { c.PollTime, c.hubs = poll, 1 })
}

// sqSleeping returns the flag with which lnetd announces its sleep.
func (r *ring) sqSleeping() *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&r.file[320])) // transport 9.4
}

// lnetd sleeps on the flag if the client has FUTEX, and at the descriptor if it has not, or has been idle. All
// submissions are processed in each case, whether lnetd polls or not.
//
// transport 9.6 (1), 9.11
func TestWaysOfWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		features protocol.Features
		poll     time.Duration
		word     bool
	}{
		"old client":               {0, -1, false},
		"old client that polls":    {protocol.FeatPolling, time.Millisecond, false},
		"FUTEX":                    {protocol.FeatFutex, -1, true},
		"FUTEX, and lnetd polls":   {protocol.FeatFutex, time.Millisecond, true},
		"FUTEX and POLLING wanted": {protocol.FeatFutex | protocol.FeatPolling, time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHubWorld(t, c.poll)
			w.t = t
			p := w.joinWith(protocol.FeatOverflow | c.features)
			rings := []*ring{p.start(34, 7, 16), p.start(34, 8, 16)}
			for range 50 {
				for _, r := range rings {
					r.submit(shm.Submission{Opcode: shm.OpNop}, shm.Submission{Opcode: shm.OpNop})
					r.taken()
				}
			}
			for _, r := range rings {
				eventually(t, "lnetd sleeps at the descriptor", func() bool { return r.sqSleeping().Load() == 1 })
				r.submit(shm.Submission{Opcode: shm.OpNop})
				r.taken()
			}
			for _, i := range w.server.Clients()[0].TMs {
				if word := i.WordWaits > 0; word && !c.word || i.WordWaits > i.Waits || i.Found > i.Polls || i.Polls > 0 && c.poll < 0 {
					t.Errorf("%+v", i)
				}
			}
		})
	}
}

// If the kernel does not let lnetd sleep on several words at a time, lnetd notices that once, and then sleeps only at
// descriptors. All submissions are processed.
func TestNoSleepOnWords(t *testing.T) {
	w := newHubWorld(t, -1)
	var tries atomic.Int32
	h := w.server.hubs[0]
	h.mu.Lock() // before join, which starts the hub
	h.sleepOnWords = func(int64) bool { tries.Add(1); return false }
	h.mu.Unlock()
	p := w.joinWith(protocol.FeatOverflow | protocol.FeatFutex)
	for _, r := range []*ring{p.start(34, 7, 16), p.start(34, 8, 16)} {
		for range 50 {
			eventually(t, "lnetd sleeps at the descriptor", func() bool { return r.sqSleeping().Load() == 1 })
			r.submit(shm.Submission{Opcode: shm.OpNop})
			r.taken()
		}
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("%d attempts to sleep on words", n)
	}
}

// A client that is on the way out while lnetd sleeps on its flag, or polls, is released at once, and so is one that
// has closed its connection.
func TestEndWhileHubSleeps(t *testing.T) {
	for name, poll := range map[string]time.Duration{"sleeping": -1, "polling": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newHubWorld(t, poll)
			w.t = t
			p := w.joinWith(protocol.FeatOverflow | protocol.FeatFutex)
			for range 50 {
				r := p.start(34, 7, 16)
				r.submit(shm.Submission{Opcode: shm.OpNop})
				r.taken()
				p.must(&protocol.TMStop{Handle: r.handle}, &protocol.Counters{})
			}
			r := p.start(34, 7, 16)
			r.submit(shm.Submission{Opcode: shm.OpNop})
			_ = p.conn.Close()
			w.empty()
		})
	}
}

// A client that writes anything into the flag on which lnetd sleeps, without submissions, is only slowed down: lnetd
// pauses for it, and other clients of the same hub are served.
//
// transport 9.9 (10)
func TestHostileFlag(t *testing.T) {
	w := newHubWorld(t, -1)
	bad, good := w.joinWith(protocol.FeatOverflow|protocol.FeatFutex), w.joinWith(protocol.FeatOverflow|protocol.FeatFutex)
	r, other := bad.start(34, 7, 16), good.start(34, 8, 16)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := uint32(0); !stop.Load(); n++ {
			r.sqSleeping().Store([]uint32{0, 1, 2, 3, 1 << 31}[n%5])
			r.Submissions.Wake(r.Submissions.ClaimAnyway())
			if n%16 == 0 {
				polling.Yield()
			}
		}
	}()
	for range 300 {
		other.submit(shm.Submission{Opcode: shm.OpNop})
		other.taken()
	}
	stop.Store(true)
	<-done
	r.submit(shm.Submission{Opcode: shm.OpNop})
	r.Submissions.Wake(r.Submissions.ClaimAnyway())
	r.taken()
}

// If a client removes the pages of its ring file and lnetd cannot get others, only that client is cut off. This test
// removes pages, which lnetd then finds zeroed: an impossible counter.
func TestHubFindsHoles(t *testing.T) {
	w := newHubWorld(t, -1)
	bad, good := w.joinWith(protocol.FeatOverflow|protocol.FeatFutex), w.joinWith(protocol.FeatOverflow|protocol.FeatFutex)
	r, other := bad.start(34, 7, 16), good.start(34, 8, 16)
	other.submit(shm.Submission{Opcode: shm.OpNop})
	r.submit(shm.Submission{Opcode: shm.OpNop})
	r.taken()
	if err := unix.Madvise(r.file[:4096], unix.MADV_REMOVE); err != nil {
		t.Fatal(err)
	}
	r.Submissions.Wake(r.Submissions.ClaimAnyway())
	eventually(t, "it is cut off", func() bool { return len(w.server.Clients()) == 1 })
	other.submit(shm.Submission{Opcode: shm.OpNop})
	other.taken()
}

// A TM for which the hub has no place, and one that is closing, wait in their own goroutines. A closed hub serves
// nothing.
func TestHubIsFull(t *testing.T) {
	h := newHubs(&Config{hubs: 1}, shared.ReadClock(), new(passes))[0]
	one, files, err := newTM(&client{server: &Server{}}, transport.Address{TMID: 7}, 16)
	if err != nil {
		t.Fatal(err)
	}
	files.Close()
	defer func() { _ = one.ring.Close() }()
	h.members = shared.MaxWaitSet
	if h.serve(one) {
		t.Error("a full hub has served a TM")
	}
	h.members = 0
	one.closing.Store(true)
	if h.serve(one) {
		t.Error("a hub has served a TM that closes")
	}
	one.closing.Store(false)
	h.close()
	if h.serve(one) {
		t.Error("a closed hub has served a TM")
	}
}

// While a pass runs, completions leave it to its end to wake their client, once for all. That is also so if another pass
// begins before, or ends. The ring of a TM that has ended is not accessed.
func TestPassWakesClientsOnce(t *testing.T) {
	s := &Server{}
	p := &s.passes
	one, files, err := newTM(&client{server: s}, transport.Address{TMID: 7}, 16)
	if err != nil {
		t.Fatal(err)
	}
	file, err := unix.Mmap(files.Ring, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	files.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(file) }()
	sleeping := (*atomic.Uint32)(unsafe.Pointer(&file[384])) // transport 9.4
	complete := func(when string, wakes bool) {
		t.Helper()
		sleeping.Store(2)
		one.finish(&buffer{}, &shm.Completion{})
		if woken := sleeping.Load() == 0; woken != wakes {
			t.Errorf("%s: client is woken: %v", when, woken)
		}
	}
	wakes := func(when string) {
		t.Helper()
		if sleeping.Load() != 0 {
			t.Errorf("%s: client sleeps", when)
		}
	}
	complete("no pass", true)
	p.begin()
	complete("first in a pass", false)
	complete("second in a pass", false)
	p.end()
	wakes("after a pass")
	complete("after a pass", true)
	p.begin()
	p.begin()
	complete("in two passes", false)
	p.end()
	wakes("at the end of the first of them")
	complete("in the second one", false)
	p.end()
	wakes("at its end")
	if n := one.ring.Completions.Stats().Wakeups; n != 5 {
		t.Errorf("%d wake-ups", n)
	}
	h := newHubs(&Config{hubs: 1}, shared.ReadClock(), p)[0]
	h.endPass() // has no effect
	h.beginPass()
	h.beginPass()
	complete("in the pass of a hub", false)
	h.endPass()
	wakes("at the end of the pass of a hub")
	if n := p.running.Load(); n != 0 {
		t.Errorf("%d passes run", n)
	}
	p.begin()
	complete("in a pass that the TM does not outlive", false)
	one.closeRing()
	p.end()
}
