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
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/completion"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// perRound is how many submissions of a TM are processed before other TMs get a turn.
const perRound = 256

// ineffectivePause is how long a TM pauses after perRound submissions without effect: NOPs, stale cancels,
// operations that do not start.
const ineffectivePause = 10 * time.Millisecond

// tm is a client's TM. It is the sink for completions of the Core's TM.
type tm struct {
	client  *client
	handle  uint32
	entries int // of its completion ring
	address transport.Address
	ring    *shm.Host
	core    completion.TM
	polling pollState
	closing atomic.Bool   // run must return
	done    chan struct{} // closed when run has returned

	roundMu    sync.Mutex // held during a round; guards what it needs
	ringError  error      // ends all rounds
	entry      shm.Submission
	ops        []transport.Op
	opBuffers  []*buffer // of each op
	rejections []rejection
	passive    passiveBits
	// ineffective is how many more submissions had no effect than had one, since the last pause.
	ineffective int
	began       uint64 // when this round began, as a completion timestamp
	wakeDue     bool   // a completion was written and the client was not woken for it

	mu sync.Mutex // guards the fields below and is held to write to the completion ring
	account
	// underWay is the number of operations under way, depth the number on each queue.
	underWay int
	depth    [transport.QueueTypes]int
	// ending is set when no more operations may start. idle is closed when ending is set and underWay is 0.
	// ringClosed is set when the ring must not be accessed any more.
	ending, ringClosed bool
	idle               chan struct{}
	figures            [transport.QueueTypes]QueueFigures
	rejected           uint64
}

// rejection is an operation that is rejected.
type rejection struct {
	buffer *buffer
	errno  syscall.Errno
}

// newTM returns a tm without a TM of a Core. entries is the size of the completion ring.
func newTM(c *client, a transport.Address, entries int) (*tm, shm.Files, error) {
	ring, files, err := shm.CreateRing(shm.Sizes{
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
		client: c, entries: entries, address: a, ring: ring, account: newAccount(entries),
		done: make(chan struct{}), idle: make(chan struct{}),
	}, files, nil
}

// run processes the client's submissions until the ring is closed or the client breaks a rule.
func (t *tm) run() {
	defer close(t.done)
	defer t.client.server.poller.wakeFirst() // t may have been woken to poll
	for {
		n, err := t.processRound()
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
		if errors.Is(err, shm.ErrShut) {
			return
		}
		if err != nil {
			t.client.cutOff(fmt.Errorf("TM at %v: %w", t.address, err))
			return
		}
	}
}

// pauseDue reports whether so many submissions were without effect that a pause is due. Such submissions use
// no credits, but they delay the other TMs.
func (t *tm) pauseDue() bool {
	t.roundMu.Lock()
	defer t.roundMu.Unlock()
	tired := t.ineffective >= perRound
	if tired {
		t.ineffective = 0
	}
	return tired
}

// pause waits for ineffectivePause. It returns false if the client is disconnected before.
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

// await waits for submissions.
func (t *tm) await() error {
	if t.poll() {
		return nil
	}
	return t.ring.Submissions.WaitWakeup()
}

// guardFault calls f, which accesses a ring file. The client may have freed pages of the file, and the kernel
// may have no memory to replace them. Then guardFault returns EFAULT instead of crashing lnetd.
func guardFault(f func() error) (err error) {
	if fault := memory.Guard(func() { err = f() }); fault != nil {
		return fmt.Errorf("the client removed a page of the ring file: %w", fault)
	}
	return err
}

// stopRun stops run. No more operations can start; those under way continue.
func (t *tm) stopRun() {
	t.mu.Lock()
	t.stopOperations()
	t.mu.Unlock()
	t.closing.Store(true)
	t.ring.ShutSubmissions()
	<-t.done
}

// stopOperations prevents further operations from starting. The caller holds mu.
func (t *tm) stopOperations() {
	if !t.ending {
		t.ending = true
		if t.underWay == 0 {
			close(t.idle)
		}
	}
}

// processSubmissions processes all submissions that were made before the call, even if lnetd has not been woken for
// them. On an error, the client has been disconnected.
func (t *tm) processSubmissions() error {
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
	under := t.underWay
	if under == 0 {
		t.stopOperations()
	}
	t.mu.Unlock()
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

// closeRing unmaps the ring after run has returned.
func (t *tm) closeRing() {
	t.mu.Lock()
	gone := t.ringClosed
	t.ringClosed = true
	t.mu.Unlock()
	if !gone {
		if err := t.ring.Close(); err != nil {
			t.client.log(slog.LevelError, "cannot unmap the rings of a client's transfer machine; their memory is freed when lnetd restarts", slog.Any("err", err))
		}
	}
}

// counters returns the counters of transport 9.7.
func (t *tm) counters() protocol.Counters {
	taken, put := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	return protocol.Counters{
		Submissions: taken.Released, Completions: put.Put, BellWrites: put.Wakeups, BellReads: taken.Reads,
	}
}
