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

// perRound is how many submissions are taken out before the other TMs have their turn.
const perRound = 256

// vainPause is how long a TM waits after perRound submissions in vain: NOPs, cancels that
// are stale, operations that do not begin.
const vainPause = 10 * time.Millisecond

// tm is a client's TM, and the sink of the Core's.
type tm struct {
	client  *client
	handle  uint32
	entries int // of its completion ring
	address transport.Address
	ring    *shm.Host
	core    completion.TM
	polling polling
	closing atomic.Bool   // run shall return
	done    chan struct{} // closed when run has returned

	taking  sync.Mutex // a round's, and guards what it needs
	broken  error      // ends all rounds
	entry   shm.Submission
	ops     []transport.Op
	names   []*buffer // of each op
	refused []refusal
	passive passiveBits
	// vain is how many more submissions there were that came to nothing than others, since
	// the last pause.
	vain  int
	began uint64 // when this round did, as completions have it
	spoke bool   // there is a completion that the client was not woken for

	mu sync.Mutex // guards the rest, and who puts into the ring holds it
	account
	// under is how many operations are under way, depth how many on each queue.
	under int
	depth [transport.QueueTypes]int
	// ending says that no operation begins any more, idle is closed once it is set and
	// under is 0. Gone says that nobody may touch the ring any more.
	ending, gone bool
	idle         chan struct{}
	figures      [transport.QueueTypes]QueueFigures
	rejected     uint64
}

// refusal is an operation that does not begin.
type refusal struct {
	buffer *buffer
	errno  syscall.Errno
}

// newTM makes a TM without a Core's. Entries are those of the completion ring.
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

// run carries out what the client submits, until the ring is shut, or it breaks a rule.
func (t *tm) run() {
	defer close(t.done)
	defer t.client.server.lookout.handOver() // it may be that t was to look
	for {
		n, err := t.round()
		if err == nil {
			switch {
			case t.tired():
				t.pause()
				continue
			case n == perRound:
				runtime.Gosched()
				continue
			case n > 0:
				continue
			}
			err = touch(t.await)
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

// tired tells whether so much was in vain that a pause is due: what costs its client no
// credit would cost the others their turn.
func (t *tm) tired() bool {
	t.taking.Lock()
	defer t.taking.Unlock()
	tired := t.vain >= perRound
	if tired {
		t.vain = 0
	}
	return tired
}

// pause waits for as long as is due, or until the client is cut off, and tells which.
func (t *tm) pause() bool {
	timer := time.NewTimer(vainPause)
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
	if t.polled() {
		return nil
	}
	return t.ring.Submissions.WaitBell()
}

// touch calls f, which touches a ring file. Its client can have had pages of it freed, in
// whose place there may be no others to be had: EFAULT, and not the end of lnetd.
func touch(f func() error) (err error) {
	if fault := memory.Guard(func() { err = f() }); fault != nil {
		return fmt.Errorf("a page of the ring file is gone: %w", fault)
	}
	return err
}

// shut ends run, and has nothing begin any more. What is under way stays so.
func (t *tm) shut() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.closing.Store(true)
	t.ring.ShutSubmissions()
	<-t.done
}

// end has no operation begin any more. mu is held.
func (t *tm) end() {
	if !t.ending {
		t.ending = true
		if t.under == 0 {
			close(t.idle)
		}
	}
}

// catchUp carries out all that was submitted before it was called, whether anybody has been
// woken for it or not. An error has cost the client its connection.
func (t *tm) catchUp() error {
	for left := protocol.SubmissionsPerCompletion * t.entries; left > 0 && t.found(); {
		if t.tired() && !t.pause() {
			return t.client.ctx.Err()
		}
		n, err := t.round()
		if err != nil || n == 0 {
			return err
		}
		left -= n
	}
	return nil
}

// stop ends a TM on which nothing is under way, by its client's wish. EBUSY: there is.
func (t *tm) stop() error {
	if err := t.catchUp(); err != nil {
		return err
	}
	t.mu.Lock()
	under := t.under
	if under == 0 {
		t.end()
	}
	t.mu.Unlock()
	if under > 0 {
		return fmt.Errorf("%d operations are under way: %w", under, syscall.EBUSY)
	}
	t.shut()
	t.closeRing()
	err := t.core.Stop()
	if err != nil {
		t.client.cutOff(fmt.Errorf("TM at %v does not stop: %w", t.address, err))
	}
	return err
}

// closeRing gives the ring up, whose run has ended.
func (t *tm) closeRing() {
	t.mu.Lock()
	gone := t.gone
	t.gone = true
	t.mu.Unlock()
	if !gone {
		if err := t.ring.Close(); err != nil {
			t.client.tell(slog.LevelError, "a ring of a client stays mapped", slog.Any("err", err))
		}
	}
}

// counters are the figures of transport 9.7.
func (t *tm) counters() protocol.Counters {
	taken, put := t.ring.Submissions.Stats(), t.ring.Completions.Stats()
	return protocol.Counters{
		Submissions: taken.Taken, Completions: put.Put, BellWrites: put.Rung, BellReads: taken.Reads,
	}
}
