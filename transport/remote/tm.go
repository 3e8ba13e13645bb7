package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// tm is a CoreTM: the client's end of a ring file.
type tm struct {
	domain  *domain
	address transport.Address
	first   transport.MatchBits
	handle  uint32
	// credits is how many completions of ops there is room for.
	credits int
	// ring is behind the gate, for who does not hold mu while ended is false.
	ring *shm.Client
	gate gate

	// news says that Reap has something to tell that is not in the ring; fallen that lnetd is
	// gone; ended that nothing is in the ring any more for anybody to take: that has been
	// told, or the TM is stopped.
	news, fallen, ended atomic.Bool
	stale               atomic.Uint64

	// woken is set by Wake, tokens for who waits aside, and poll is how long to poll, which is
	// Wait's alone.
	woken  atomic.Bool
	tokens chan struct{} // holds one
	poll   time.Duration

	// flushing is full while a goroutine sleeps in Flush, which takes no lock but mu then.
	flushing chan struct{}

	mu      sync.Mutex // guards the rest, and both halves of the ring, but for bells
	stopped bool
	spent   int // credits that ops have
	ops     int // under way
	cancels cancels
	gone    error
	heard   *GoingDown     // not told yet: the last one
	in      shm.Completion // scratch
	out     shm.Submission
}

// StartTM asks lnetd, and blocks until ctx ends. EDQUOT: there are as many TMs, or as many
// entries of rings, as there may be; EACCES: lnetd's rules do not let this program have the
// address.
func (d *domain) StartTM(ctx context.Context, a transport.Address, completions int) (transport.CoreTM, error) {
	t, err := d.startTM(ctx, a, completions)
	if err != nil {
		return nil, fmt.Errorf("remote: start at %s: %w", a, err)
	}
	return t, nil
}

func (d *domain) startTM(ctx context.Context, a transport.Address, completions int) (*tm, error) {
	entries, err := entriesFor(completions, d.core.config.Completions)
	if err != nil {
		return nil, err
	}
	// One that nobody waited for may have the address yet, for a moment.
	if err := d.connection.settle(ctx); err != nil {
		return nil, err
	}
	r := protocol.TMStart{
		NID: a.NID, PID: a.PID, Portal: a.Portal, TMID: uint32(a.TMID),
		Completions: entries,
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
	ring, err := shm.AttachRing(shm.Files{Ring: c.fds[0], Submissions: c.fds[1], Completions: c.fds[2]})
	if err != nil {
		d.undoStart(c)
		return nil, err
	}
	if err := fits(&a, &reply, ring); err != nil {
		d.connection.fail(err)
		return nil, errors.Join(err, ring.Close())
	}
	if n := int(reply.Credits); n < completions {
		d.undoStart(c)
		err := fmt.Errorf("room for %d events, lnetd gives it for %d: %w", completions, n, syscall.ENOBUFS)
		return nil, errors.Join(err, ring.Close())
	}
	a.TMID = uint16(reply.TMID)
	return d.attach(a, &reply, ring)
}

// entriesFor is how many entries to ask for, that there be so many, and room for so many
// completions of ops, if lnetd does not keep more of them back than we think. ENOBUFS: no
// ring is so long.
func entriesFor(completions, entries int) (uint32, error) {
	n := uint32(max(entries, min(completions, protocol.MaxCompletions)))
	for int(protocol.Credits(protocol.Granted(n))) < completions {
		if n = protocol.Granted(n) + 1; n > protocol.MaxCompletions {
			return 0, fmt.Errorf("room for %d events, there is for %d: %w",
				completions, protocol.Credits(protocol.MaxCompletions), syscall.ENOBUFS)
		}
	}
	return n, nil
}

// fits tells whether the reply to what was asked, and the ring that came with it, belong
// together.
func fits(a *transport.Address, reply *protocol.TMStartReply, ring *shm.Client) error {
	n := int(reply.Completions)
	want := shm.Sizes{Submissions: protocol.SubmissionsPerCompletion * n, Completions: n}
	if got := ring.Sizes(); got != want {
		return fmt.Errorf("a ring with room for %+v, not %+v: %w", got, want, syscall.EPROTO)
	}
	if a.TMID != transport.Dynamic && uint32(a.TMID) != reply.TMID {
		return fmt.Errorf("started number %d instead: %w", reply.TMID, syscall.EPROTO)
	}
	return nil
}

// undoStart is for a TM that nobody waits for any more. Its files are closed by others.
func (d *domain) undoStart(c *call) {
	var reply protocol.TMStartReply
	if d.connection.decode(c, &reply) == nil {
		// If lnetd refuses, there is nothing to be done.
		_ = d.connection.insist(&protocol.TMStop{Handle: reply.Handle}, &protocol.Counters{})
	}
}

// attach makes a TM that lnetd has started one of the domain's.
func (d *domain) attach(a transport.Address, reply *protocol.TMStartReply, ring *shm.Client) (*tm, error) {
	t := &tm{
		domain: d, address: a, first: transport.MatchBits(reply.MatchBits), handle: reply.Handle, credits: int(reply.Credits), ring: ring,
		tokens: make(chan struct{}, 1), flushing: make(chan struct{}, 1), poll: d.core.config.PollTime,
	}
	if t.first == 0 { // lnetd is older
		t.first = transport.RandomMatchBits(a.TMID)
	}
	t.gate.last = func() { _ = ring.Close() } // it is mapped
	d.mu.Lock()
	err := d.gone
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

// Address is where the TM is.
func (t *tm) Address() transport.Address { return t.address }

// MatchBits are those that lnetd has chosen, if it does.
func (t *tm) MatchBits() transport.MatchBits { return t.first }

// Grow does not make room, but tells whether there is: ENOBUFS if not, and what to do.
func (t *tm) Grow(n int) error {
	if n > t.credits {
		return fmt.Errorf("remote: room for %d events, the TM has for %d (remote.Config.Completions): %w",
			n, t.credits, syscall.ENOBUFS)
	}
	return nil
}

// over tells whether no op of the TM is under way any more, whatever its buffers say.
func (t *tm) over() bool { return t.fallen.Load() || t.ended.Load() }

// fall has the TM tell that lnetd is gone, behind what is in the ring yet.
func (t *tm) fall(err error) {
	t.mu.Lock()
	t.gone = err
	t.fallen.Store(true)
	t.news.Store(!t.ended.Load())
	t.mu.Unlock()
	t.Wake()
	if t.gate.enter() {
		t.ring.Submissions.WakePosted()
		t.gate.leave()
	}
}

// hear has the TM tell of what lnetd says of itself.
func (t *tm) hear(g GoingDown) {
	t.mu.Lock()
	if !t.ended.Load() {
		t.heard = &g
		t.news.Store(true)
	}
	t.mu.Unlock()
	t.Wake()
}

// Stop asks lnetd, unless it is gone, and waits for it no longer than Config.Patience says.
func (t *tm) Stop() error {
	t.mu.Lock()
	switch {
	case t.stopped:
		t.mu.Unlock()
		return nil
	case t.ops > t.cancels.ended && t.gone == nil:
		n := t.ops - t.cancels.ended
		t.mu.Unlock()
		return fmt.Errorf("remote: stop %s: %d ops are under way: %w", t.address, n, syscall.EBUSY)
	}
	t.stopped = true
	left := t.cancels.ended
	t.mu.Unlock()
	d := t.domain
	err := d.connection.insist(&protocol.TMStop{Handle: t.handle}, &protocol.Counters{})
	if left > 0 && err != nil && !gone(err) {
		// lnetd is back, and would go on with ops that have ended here.
		d.connection.fail(err)
		err = nil
	}
	if err != nil && !gone(err) {
		t.mu.Lock()
		t.stopped = false
		t.mu.Unlock()
		return fmt.Errorf("remote: stop %s: %w", t.address, err)
	}
	t.mu.Lock()
	t.ended.Store(true)
	t.news.Store(false)
	t.unwatchCancels()
	t.mu.Unlock()
	t.ring.Submissions.WakePosted()
	t.ring.Shut()
	d.mu.Lock()
	delete(d.tms, t)
	last := t.stats()
	d.past.add(&last)
	d.mu.Unlock()
	t.gate.shut()
	t.Wake()
	return nil
}
