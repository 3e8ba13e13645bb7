package clients

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/polling"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// A hub processes the submissions of the TMs that are active, in one goroutine with its own thread. It polls their
// rings for a while, and then sleeps on the flags of all of them at a time, which is cheaper than to wake a goroutine
// for each submission. A TM that has been idle for a while leaves the hub, and sleeps in its own goroutine, in Go's
// poller, which takes no thread. A TM also leaves the hub if anything else than ordinary submissions is to be
// processed: errors, pauses, faults and its end are left to the goroutine of the TM. While the processors are busy, all
// TMs are processed by their own goroutines: that is less work per submission, because more of them come together.
type hub struct {
	clock  shared.Clock
	poller polling.Poller
	words  shared.WaitSet
	// sleepOnWords is words.Sleep. After it has returned false, wordless is set, and TMs sleep only at descriptors.
	sleepOnWords func(until int64) bool
	wordless     bool

	tms   []*tm         // the TMs that it serves; only its goroutine uses them, and the fields above
	idle  time.Duration // idleTime, or the time of polling if that is longer
	swept time.Time     // when the TMs were last checked for idleness

	passes *passes // of the Server
	inPass bool    // a pass of the hub runs; only its goroutine uses this field

	attention atomic.Bool // the goroutine must call admit
	mu        sync.Mutex  // guards the fields below
	joining   []*tm       // TMs that it will serve
	members   int         // number of TMs in tms and joining
	started   bool
	ended     chan struct{} // closed when the goroutine has ended; made when it is started
	closing   bool
	wake      chan struct{} // wakes the goroutine when it serves no TM
}

// idleTime is how long a TM without submissions stays in its hub, and how long a hub sleeps at most.
const idleTime = 20 * time.Millisecond

// maxHubs bounds the number of hubs, and so that of their threads.
const maxHubs = 8

// newHubs returns the hubs of a Server. There are fewer than processors, so that one is left for other goroutines
// while all hubs poll or sleep: a goroutine that sleeps in the kernel for a short time keeps its place on a processor
// from others. So there is no hub if there is only one processor.
func newHubs(c *Config, clock shared.Clock, p *passes) []*hub {
	hubs := make([]*hub, cmp.Or(c.hubs, min(runtime.GOMAXPROCS(0)-1, maxHubs)))
	for k := range hubs {
		hubs[k] = &hub{clock: clock, passes: p, idle: max(idleTime, c.PollTime), wake: make(chan struct{}, 1)}
		hubs[k].poller.SetTime(c.PollTime)
		hubs[k].sleepOnWords = hubs[k].words.Sleep
	}
	return hubs
}

// setWaiting determines how a new TM waits for submissions, given the features of its client: in a hub, or in its own
// goroutine.
func (t *tm) setWaiting(f protocol.Features) {
	s := t.client.server
	switch {
	case len(s.hubs) == 0:
		t.ring.Submissions.SetWaiting(s.config.PollTime, false)
	case f&(protocol.FeatFutex|protocol.FeatPolling) != 0:
		t.hub, t.wakesWord = s.hubs[int(s.nextHub.Add(1))%len(s.hubs)], f&protocol.FeatFutex != 0
	}
}

// serve lets the hub process t's submissions, and returns when the hub does not do so any more. It returns false if
// the hub has not served t, because it has no place, or because t is closing. Only the goroutine of t calls it.
func (h *hub) serve(t *tm) bool {
	if !h.join(t) {
		return false
	}
	<-t.returned
	return true
}

func (h *hub) join(t *tm) bool {
	if h.poller.Resting(time.Now()) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing || t.closing.Load() || h.members == shared.MaxWaitSet {
		return false
	}
	h.members++
	h.joining = append(h.joining, t)
	if !h.started {
		h.started, h.ended = true, make(chan struct{})
		go h.run()
	}
	h.interrupt()
	return true
}

// interrupt makes the hub's goroutine continue, whether it serves TMs or not.
func (h *hub) interrupt() {
	h.attention.Store(true)
	h.words.Wake()
	select {
	case h.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// close ends the hub. All TMs have ended before.
func (h *hub) close() {
	h.mu.Lock()
	h.closing = true
	ended := h.ended
	h.mu.Unlock()
	h.interrupt()
	if ended != nil {
		<-ended
	}
}

// run is the hub's goroutine. It has a separate thread, which sleeps, so that Go's poller stays in another one.
func (h *hub) run() {
	defer close(h.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hasWork := h.hasWork
	for h.admit() {
		h.sweep()
		if h.processAll() {
			continue
		}
		found := h.poll(hasWork)
		if h.poller.Resting(time.Now()) {
			h.releaseIf(func(*tm) bool { return true })
		} else if !found {
			h.sleep()
		}
	}
}

// poll polls the rings for a while, and reports whether the hub's goroutine has something to do.
func (h *hub) poll(hasWork func() bool) (found bool) {
	if !polling.Acquire() {
		return false
	}
	defer polling.Release()
	polled, found := h.poller.Poll(time.Time{}, hasWork)
	if polled {
		for _, t := range h.tms {
			t.ring.Submissions.CountPoll(found && t.hasWork())
		}
	}
	return found
}

// admit adds the TMs that have joined, and waits for one if the hub serves none. It returns false when the hub ends.
func (h *hub) admit() bool {
	for h.attention.Swap(false) || len(h.tms) == 0 {
		h.mu.Lock()
		for _, t := range h.joining {
			t.active = true
			h.tms = append(h.tms, t)
		}
		clear(h.joining)
		h.joining = h.joining[:0]
		closing := h.closing
		h.mu.Unlock()
		if closing {
			return false
		}
		if len(h.tms) == 0 {
			<-h.wake
		}
	}
	return true
}

// hasWork reports whether the hub's goroutine has something to do.
func (h *hub) hasWork() bool {
	return h.attention.Load() || slices.ContainsFunc(h.tms, (*tm).hasWork)
}

// processAll processes one round of each TM that has work, and reports whether there was any. It ends a pass after
// perRound submissions or more.
func (h *hub) processAll() (found bool) {
	processed := 0
	h.releaseIf(func(t *tm) bool {
		if !t.hasWork() {
			return false
		}
		h.beginPass()
		found, t.active = true, true
		n, err := t.processRound()
		if processed += n; processed >= perRound {
			processed = 0
			h.endPass()
		}
		return err != nil || t.closing.Load() || t.tooIneffective(n == 0)
	})
	h.endPass()
	return found
}

// beginPass begins a pass, unless one runs.
func (h *hub) beginPass() {
	if !h.inPass {
		h.inPass = true
		h.passes.begin()
	}
}

// endPass ends the pass that runs, if there is one.
func (h *hub) endPass() {
	if h.inPass {
		h.inPass = false
		h.passes.end()
	}
}

// sweep releases the TMs that have made no submission for h.idle.
func (h *hub) sweep() {
	now := time.Now()
	if now.Sub(h.swept) < h.idle {
		return
	}
	h.swept = now
	h.releaseIf(func(t *tm) bool {
		active := t.active
		t.active = false
		return !active
	})
}

// releaseIf removes the TMs for which leaves returns true, and lets their goroutines continue.
func (h *hub) releaseIf(leaves func(t *tm) bool) {
	h.tms = slices.DeleteFunc(h.tms, func(t *tm) bool {
		if !leaves(t) {
			return false
		}
		h.mu.Lock()
		h.members--
		h.mu.Unlock()
		t.returned <- struct{}{} // does not block: it has room for one element, which serve receives before t joins again
		return true
	})
}

// sleep sleeps until a client wakes lnetd, for at most idleTime. The TMs that cannot be woken in this way it releases,
// so that they sleep at their descriptors.
func (h *hub) sleep() {
	h.releaseIf(func(t *tm) bool { return h.wordless || !t.wakesWord })
	if len(h.tms) == 0 {
		return
	}
	h.words.Begin()
	_ = memory.Guard(func() { // after a fault, hasWork returns true, and the TM's round reports the fault
		for _, t := range h.tms {
			h.words.Add(t.ring.Submissions.SubmissionConsumer)
		}
	})
	h.wordless = !h.hasWork() && !h.sleepOnWords(h.clock.Reading(time.Now().Add(idleTime)))
	h.words.End()
	for _, t := range h.tms {
		woken := false
		_ = memory.Guard(func() { woken = t.ring.Submissions.Awake() })
		if woken && !t.hasWork() {
			t.tooIneffective(true) // counts a wake-up without a submission
		}
	}
}
