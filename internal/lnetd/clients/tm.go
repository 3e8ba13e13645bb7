package clients

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/limit"
	"github.com/lnetd/lnetd/memory"
	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// perRound is the maximum number of submissions of a TM that are processed in one round. Then sleeping clients are
// woken, and the goroutines of other TMs may run.
const perRound = 16

// ineffectivePause is how long the processing of a TM pauses after mostIneffective submissions without effect, such
// as NOPs, requests to cancel operations that have ended, and operations that do not start.
const (
	ineffectivePause = 10 * time.Millisecond
	mostIneffective  = 256
)

// tm is a client's TM. It connects the rings that it shares with the client to a TM of the Core, and is the
// sink for the completions of that TM.
type tm struct {
	client    *client
	handle    uint32
	entries   int // number of entries of the completion ring
	address   transport.Address
	ring      *shm.Host
	core      completion.TM
	overflows bool          // the client has protocol.FeatOverflow
	hub       *hub          // serves the TM while it is active; nil if the client has asked neither for polling nor for futexes
	wakesWord bool          // the client has protocol.FeatFutex
	active    bool          // it has made submissions since the last sweep of the hub, which alone uses the field
	wakeLeft  atomic.Bool   // the end of a pass must wake the client if that sleeps; see passes
	returned  chan struct{} // receives an element when the hub does not serve the TM any more
	closing   atomic.Bool   // if true, run must return
	done      chan struct{} // closed when run has returned

	roundMu    sync.Mutex // held while a round processes submissions; guards the fields up to wakeDue
	ringError  error      // the violation for which the client was disconnected, or nil
	entry      shm.Submission
	ops        []transport.Op // operations that this round submits to the Core
	opBuffers  []*buffer      // the buffer of each of ops
	rejections []rejection    // operations that this round rejects
	passive    passiveBits
	// ineffective is the number of submissions without effect minus the number of those with an effect,
	// but at least 0, since the last pause.
	ineffective int
	began       uint64 // when this round began, as a completion timestamp
	wakeDue     bool   // a completion was written, and the client must be woken at the end of the round

	// keeping reports whether kept has elements.
	keeping atomic.Bool

	mu sync.Mutex // guards the fields below and is held to write to the completion ring
	// kept holds completions for which the ring had no room. Later ones are appended as long as it has
	// elements. overflowed counts the completions that were ever kept.
	kept       []kept
	overflowed uint64
	// discarding means that no more completions are written, because the ring is closed or the client, which
	// is being disconnected, has not received an earlier one.
	discarding bool
	// underWay is the number of operations under way. depth holds this number for each queue.
	underWay int
	depth    [transport.QueueTypes]int
	// ending is set when no more operations may start. idle is closed when ending is set and underWay is 0.
	// ringClosed is set when the ring must not be accessed any more.
	ending, ringClosed bool
	idle               chan struct{}
	figures            [transport.QueueTypes]QueueFigures
	rejected           uint64
}

// rejection is an operation on a buffer that is rejected with an errno.
type rejection struct {
	buffer *buffer
	errno  syscall.Errno
}

// newTM creates the rings of a TM and returns a tm that has no TM of the Core yet. The completion ring has
// the given number of entries. The files are those of the rings, for the client; the caller must close
// them.
func newTM(c *client, a transport.Address, entries int) (*tm, shared.Files, error) {
	ring, files, err := shm.CreateRing(shared.Sizes{
		Submissions: protocol.SubmissionsPerCompletion * entries, Completions: entries,
	})
	if err != nil {
		return nil, files, err
	}
	for _, fd := range []int{files.Ring, files.Submissions, files.Completions} {
		if err := limit.CheckClientDescriptor(fd); err != nil {
			files.Close()
			_ = ring.Close()
			return nil, files, err
		}
	}
	return &tm{
		client: c, entries: entries, address: a, ring: ring,
		returned: make(chan struct{}, 1), done: make(chan struct{}), idle: make(chan struct{}),
	}, files, nil
}

// run processes the client's submissions until stopRun is called or the client violates the protocol.
func (t *tm) run() {
	defer close(t.done)
	p := &t.client.server.passes
	for {
		p.begin()
		n, err := t.processRound()
		p.end()
		if err == nil {
			switch {
			case t.pauseDue():
				t.pause()
				continue
			case n == perRound:
				runtime.Gosched()
				continue
			case n > 0:
				continue
			}
			err = guardFault(t.await)
		}
		if errors.Is(err, shared.ErrShut) {
			return
		}
		if err != nil {
			t.client.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
			return
		}
	}
}

// tooIneffective reports whether a pause is due. If also is set, it first counts one more event without effect.
func (t *tm) tooIneffective(also bool) bool {
	t.roundMu.Lock()
	defer t.roundMu.Unlock()
	if also {
		t.ineffective++
	}
	return t.ineffective >= mostIneffective
}

// pauseDue reports whether the caller must pause because too many submissions were without effect, and
// resets their count. Such submissions cost the client little, but they delay the other TMs.
func (t *tm) pauseDue() bool {
	t.roundMu.Lock()
	defer t.roundMu.Unlock()
	tired := t.ineffective >= mostIneffective
	if tired {
		t.ineffective = 0
	}
	return tired
}

// pause waits for ineffectivePause. It returns false if the client is disconnected during this time.
func (t *tm) pause() bool {
	timer := time.NewTimer(ineffectivePause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.client.ctx.Done():
		return false
	}
}

// await waits for submissions. The hub processes them as long as they follow each other. Then await sleeps until
// the client wakes lnetd.
func (t *tm) await() error {
	if t.hub != nil && t.hub.serve(t) && t.hasWork() {
		return nil
	}
	return t.ring.Submissions.WaitWakeup()
}

// hasWork reports whether the TM's goroutine has something to do: its submission ring has an entry, or the
// TM is closing. It also returns true if the client has removed a page of the ring, because the TM's own
// goroutine must handle that.
func (t *tm) hasWork() bool {
	found := t.closing.Load()
	fault := memory.Guard(func() { found = found || t.pending() })
	return found || fault != nil
}

// pending reports whether the client has made submissions, or has made room for kept completions.
func (t *tm) pending() bool {
	return t.ring.Submissions.Pending() || t.keeping.Load() && !t.ring.Completions.OverflowMarked()
}

// guardFault calls f, which accesses memory of a ring file, and returns its error. If the access causes a
// fault, guardFault returns EFAULT instead of letting lnetd crash. A fault occurs if the client has freed
// pages of the file and the kernel has no memory to replace them.
func guardFault(f func() error) (err error) {
	if fault := memory.Guard(func() { err = f() }); fault != nil {
		return fmt.Errorf("the client removed a page of the ring file: %w", fault)
	}
	return err
}

// stopRun makes run return and waits for it. Further operations cannot start. Those under way continue. Kept
// completions that do not fit into the ring now are lost.
func (t *tm) stopRun() {
	_ = t.flushKept() // an error has disconnected the client
	t.mu.Lock()
	t.stopOperations()
	if len(t.kept) > 0 {
		t.discard()
	}
	t.mu.Unlock()
	t.closing.Store(true)
	if t.hub != nil {
		t.hub.words.Wake()
	}
	t.ring.ShutSubmissions()
	<-t.done
}

// stopOperations prevents further operations from starting. t.idle is closed when those under way have
// ended. The caller holds mu.
func (t *tm) stopOperations() {
	if !t.ending {
		t.ending = true
		if t.underWay == 0 {
			close(t.idle)
		}
	}
}

// processSubmissions processes all submissions that the client made before the call, even if it has not
// woken lnetd for them. It also moves kept completions to the ring, if there is room. If it returns an error,
// the client has been disconnected.
func (t *tm) processSubmissions() error {
	if err := t.flushKept(); err != nil {
		return err
	}
	for left := protocol.SubmissionsPerCompletion * t.entries; left > 0 && t.hasWork(); {
		if t.pauseDue() && !t.pause() {
			return t.client.ctx.Err()
		}
		n, err := t.processRound()
		if err != nil || n == 0 {
			return err
		}
		left -= n
	}
	return nil
}

// stop stops a TM at the client's request. It returns EBUSY if operations are under way.
func (t *tm) stop() error {
	if err := t.processSubmissions(); err != nil {
		return err
	}
	t.mu.Lock()
	under, unread := t.underWay, len(t.kept)
	if under == 0 {
		t.stopOperations()
	}
	t.mu.Unlock()
	if unread > 0 {
		return fmt.Errorf("%d operations are pending, because %d completions wait until the client has read earlier ones: %w", under, unread, syscall.EBUSY)
	}
	if under > 0 {
		return fmt.Errorf("%d operations are pending: %w", under, syscall.EBUSY)
	}
	t.stopRun()
	t.closeRing()
	err := t.core.Stop()
	if err != nil {
		t.client.cutOff(fmt.Errorf("TM at %v did not stop: %w", t.address, err))
	}
	return err
}

// closeRing unmaps the rings. It must be called after run has returned. Later completions are discarded.
func (t *tm) closeRing() {
	t.mu.Lock()
	gone := t.ringClosed
	t.ringClosed = true
	t.discard()
	t.mu.Unlock()
	if !gone {
		if err := t.ring.Close(); err != nil {
			t.client.log(slog.LevelError, "cannot unmap the rings of a client's transfer machine; their memory is freed when lnetd restarts", slog.Any("err", err))
		}
	}
}

// counters returns the TM's counters in the form in which the protocol reports them (transport 9.7).
func (t *tm) counters() protocol.Counters {
	taken, put := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	return protocol.Counters{
		Submissions: taken.Released, Completions: put.Put, BellWrites: put.Wakeups, BellReads: taken.Reads,
	}
}
