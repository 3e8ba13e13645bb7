package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lnetd/lnetd/memory/shared"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// tm is a CoreTM: this process's end of the rings that it shares with lnetd.
type tm struct {
	domain  *domain
	address transport.Address
	first   transport.MatchBits
	handle  uint32
	// growing is held during Grow. It guards events, the number of completions for which the TM has room in
	// lnetd. ringEntries is the size of the completion ring. Both count in domain.events.
	growing     sync.Mutex
	events      int
	ringEntries int
	// ring may be used between gate.enter and gate.leave, or with mu held while ended returns false.
	ring *shm.Client
	gate gate

	// hasExtra means that Reap has completions to return that are not in the ring. lost means that lnetd is
	// gone. drained means that no completions remain: Reap has returned the completion with Down, or the TM
	// is stopped.
	hasExtra, lost, drained atomic.Bool
	stale                   atomic.Uint64 // see Stats.Stale

	tokens chan struct{} // wakes waitWithoutRing; has capacity 1

	// flushing holds an element while a goroutine sleeps in Flush, so that only one does. That goroutine
	// acquires no lock except mu.
	flushing chan struct{}

	mu        sync.Mutex // guards the fields below, and both rings, except for the parts that wake the other side
	stopped   bool
	ops       int // number of ops in progress
	backlog   backlog
	cancels   cancels
	endError  error          // why the connection has ended; nil while it works
	goingDown *GoingDown     // the last announcement of lnetd's end that Reap has not returned yet
	in        shm.Completion // the entry that drain is processing
	op        shm.Submission // the entry that put is writing
}

// StartTM implements transport.CoreDomain with a request to lnetd. It may block until ctx ends. It also returns
// EDQUOT if the quota of TMs or of ring entries is used up, EACCES if lnetd's rules do not permit this program to
// use the address, and EMFILE if this process has too many open files.
func (d *domain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	t, err := d.startTM(ctx, a, completions)
	if err != nil {
		return nil, fmt.Errorf("remote: start at %s: %w", a, err)
	}
	return t, nil
}

func (d *domain) startTM(ctx context.Context, a transport.Address, completions int) (*tm, error) {
	// A TM whose start was abandoned may still occupy the address until it has been stopped.
	if err := d.connection.waitUndone(ctx); err != nil {
		return nil, err
	}
	r := protocol.TMStart{
		NID: a.NID, PID: a.PID, Portal: a.Portal, TMID: uint32(a.TMID),
		Completions: uint32(d.core.config.Completions),
	}
	c, err := d.connection.call(ctx, &r, d.undoStart)
	if err != nil {
		return nil, err
	}
	var reply protocol.TMStartReply
	if err := d.connection.decode(c, &reply); err != nil {
		closeAll(c.fds)
		return nil, err
	}
	if c.fdsLost {
		d.undoStart(c)
		return nil, fmt.Errorf("receive the descriptors of the ring: %w", syscall.EMFILE)
	}
	ring, err := shm.AttachRing(shared.Files{Ring: c.fds[0], Submissions: c.fds[1], Completions: c.fds[2]})
	if err != nil {
		d.undoStart(c)
		return nil, err
	}
	if err := fits(&a, &reply, ring); err != nil {
		d.connection.fail(err)
		return nil, errors.Join(err, ring.Close())
	}
	if err := d.reserve(int(reply.Completions) + completions); err != nil {
		d.undoStart(c)
		return nil, errors.Join(err, ring.Close())
	}
	a.TMID = uint16(reply.TMID)
	return d.attach(a, &reply, ring, completions)
}

// reserve reserves room for n more completions in the quota that lnetd has granted to this connection: for
// the entries of rings, and for the completions that lnetd keeps. So lnetd can always keep the completions that
// the program has not reaped. It returns ENOBUFS if the quota is too small.
func (d *domain) reserve(n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if quota := int(d.hello.Quotas.RingEntries); n > quota-d.events {
		return fmt.Errorf("room for %d more events exceeds lnetd's quota of %d completion entries for one program, with %d in use: %w",
			n, quota, d.events, syscall.ENOBUFS)
	}
	d.events += n
	return nil
}

// fits returns an error if lnetd's reply does not match the request or the ring.
func fits(a *transport.Address, reply *protocol.TMStartReply, ring *shm.Client) error {
	n := int(reply.Completions)
	want := shared.Sizes{Submissions: protocol.SubmissionsPerCompletion * n, Completions: n}
	if got := ring.Sizes(); got != want {
		return fmt.Errorf("lnetd made a ring with %+v instead of %+v: %w", got, want, syscall.EPROTO)
	}
	if a.TMID != transport.Dynamic && uint32(a.TMID) != reply.TMID {
		return fmt.Errorf("lnetd started a TM with the number %d instead of the requested one: %w", reply.TMID, syscall.EPROTO)
	}
	return nil
}

// undoStart stops the TM of a TM_START call whose caller has given up or cannot use the reply. The caller of
// undoStart closes the files.
func (d *domain) undoStart(c *call) {
	var reply protocol.TMStartReply
	if d.connection.decode(c, &reply) == nil {
		// An error is ignored, because there is no caller to return it to.
		_ = d.connection.requestAlways(&protocol.TMStop{Handle: reply.Handle}, &protocol.Counters{})
	}
}

// attach adds a TM that lnetd has started to the domain, with room for the given number of completions. After an
// error, ring is closed.
func (d *domain) attach(a transport.Address, reply *protocol.TMStartReply, ring *shm.Client, completions int) (*tm, error) {
	t := &tm{
		domain: d, address: a, first: transport.MatchBits(reply.MatchBits), handle: reply.Handle, ring: ring,
		events: completions, ringEntries: int(reply.Completions),
		tokens: make(chan struct{}, 1), flushing: make(chan struct{}, 1),
	}
	if t.first == 0 { // an older lnetd does not choose match bits
		t.first = transport.RandomMatchBits(a.TMID)
	}
	ring.Completions.SetWaiting(d.core.config.PollTime, d.hello.Features&protocol.FeatFutex != 0)
	t.gate.last = func() { _ = ring.Close() } // cannot fail: it is mapped
	d.mu.Lock()
	err := d.endError
	if err == nil {
		d.tms[t] = struct{}{}
	}
	d.mu.Unlock()
	if err != nil {
		t.gate.shut()
		return nil, err
	}
	if a.NID.IsLarge() {
		d.longerDescriptors(transport.LargeDescriptorSize)
	}
	return t, nil
}

// Address returns the address of the TM.
func (t *tm) Address() transport.Address { return t.address }

// MatchBits implements transport.CoreTM. lnetd has chosen the match bits, or this process if lnetd is older.
func (t *tm) MatchBits() transport.MatchBits { return t.first }

// Grow reserves room for n completions in lnetd. It returns ENOBUFS if the quota of completion entries that
// lnetd grants to this connection is too small. All TMs of the domain share it.
func (t *tm) Grow(n int) error {
	t.growing.Lock()
	defer t.growing.Unlock()
	if n <= t.events {
		return nil
	}
	if err := t.domain.reserve(n - t.events); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	t.events = n
	return nil
}

// ended reports whether the TM has ended, so that no op can be in progress any more, even if the state of a
// buffer still says so.
func (t *tm) ended() bool { return t.lost.Load() || t.drained.Load() }

// markLost makes the TM report that lnetd is gone, after the completions that are in the ring.
func (t *tm) markLost(err error) {
	t.mu.Lock()
	t.endError = err
	t.lost.Store(true)
	t.hasExtra.Store(!t.drained.Load())
	t.mu.Unlock()
	t.Wake()
	if t.gate.enter() {
		t.ring.Submissions.WakePosted()
		t.gate.leave()
	}
}

// reportGoingDown makes the TM report that lnetd is about to end.
func (t *tm) reportGoingDown(g GoingDown) {
	t.mu.Lock()
	if !t.drained.Load() {
		t.goingDown = &g
		t.hasExtra.Store(true)
	}
	t.mu.Unlock()
	t.Wake()
}

// Stop implements transport.CoreTM with a request to lnetd, unless lnetd is gone. It waits for the reply; if
// lnetd is silent for Config.Patience, Stop ends the connection.
func (t *tm) Stop() error {
	t.mu.Lock()
	switch {
	case t.stopped:
		t.mu.Unlock()
		return nil
	case t.ops > t.cancels.abandoned && t.endError == nil:
		n := t.ops - t.cancels.abandoned
		t.mu.Unlock()
		return fmt.Errorf("remote: stop %s: %d operations are still in progress: %w", t.address, n, syscall.EBUSY)
	}
	t.stopped = true
	left := t.cancels.abandoned
	t.mu.Unlock()
	d := t.domain
	err := d.connection.requestAlways(&protocol.TMStop{Handle: t.handle}, &protocol.Counters{})
	if left > 0 && err != nil && !connectionEnded(err) {
		// lnetd answers again, and would continue ops that have ended for the program. End the connection
		// instead.
		d.connection.fail(err)
		err = nil
	}
	if err != nil && !connectionEnded(err) {
		t.mu.Lock()
		t.stopped = false
		t.mu.Unlock()
		return fmt.Errorf("remote: stop %s: %w", t.address, err)
	}
	t.mu.Lock()
	t.drained.Store(true)
	t.hasExtra.Store(false)
	t.unwatchCancels()
	t.mu.Unlock()
	t.ring.Submissions.WakePosted()
	t.ring.Shut()
	t.growing.Lock()
	events := t.events + t.ringEntries
	t.events = math.MaxInt // a stopped TM needs no room
	t.growing.Unlock()
	d.mu.Lock()
	delete(d.tms, t)
	d.events -= events
	last := t.stats()
	d.endedStats.add(&last)
	d.mu.Unlock()
	t.gate.shut()
	t.Wake()
	return nil
}
