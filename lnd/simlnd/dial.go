package simlnd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
	"github.com/lnetd/lnetd/lnd/socklnd"
)

// Dial implements socklnd.Network. Like TCP, it repeats a request without an answer, and at last returns
// ETIMEDOUT. If no host has the address, or its device is down, Dial returns EHOSTUNREACH after neighbourLimit.
func (h *Host) Dial(ctx context.Context, from, to netip.AddrPort) (socklnd.Stream, error) {
	s, err := h.dial(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("simlnd: %s: dial %s from %s: %w", h.net.Name, to, from, err)
	}
	return s, nil
}

// attempt is an attempt to connect.
type attempt struct {
	h     *Host
	tuple tuple
	way   network.Way
	// random generates the delays of the attempt, and seeds for the delays of its connection.
	random *rand.Rand
	began  time.Duration // when the attempt began
	next   time.Duration // time of the next request, since began
}

// dial is Dial without the context in its errors.
func (h *Host) dial(ctx context.Context, from, to netip.AddrPort) (*stream, error) {
	a, err := h.begin(from, to)
	if err != nil {
		return nil, err
	}
	for {
		if err := h.fabric.awaitHolds(ctx, a.way); err != nil {
			return nil, a.fail(err)
		}
		if err := h.fabric.sleep(ctx, a.roundTrip()); err != nil {
			return nil, a.fail(err)
		}
		s, verdict := a.arrive()
		switch {
		case verdict != nil:
			return nil, a.fail(verdict)
		case s != nil:
			return s, nil
		}
		if err := a.again(ctx); err != nil {
			return nil, a.fail(err)
		}
	}
}

// begin checks the local address and reserves the 4-tuple.
func (h *Host) begin(from, to netip.AddrPort) (*attempt, error) {
	f := h.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.device(from.Addr())
	switch {
	case f.closed:
		return nil, net.ErrClosed
	case d == nil || d.host != h:
		return nil, syscall.EADDRNOTAVAIL
	case from.Addr().Is4() != to.Addr().Is4():
		return nil, syscall.ENETUNREACH
	case d.port.Down:
		f.faults.unreachable.Add(1)
		return nil, syscall.ENETUNREACH
	}
	t := tuple{from, to}
	for from.Port() == 0 {
		t.local = netip.AddrPortFrom(from.Addr(), h.nextPort())
		if _, used := h.inUse[t]; !used {
			break
		}
	}
	if _, used := h.inUse[t]; used {
		return nil, syscall.EADDRINUSE
	}
	h.inUse[t] = nil
	w := network.Way{From: from.Addr(), To: to.Addr()}
	return &attempt{
		h: h, tuple: t, way: w,
		random: f.net.Random(w, f.net.Attempt(w)),
		began:  f.net.Now(),
		next:   synFirst,
	}, nil
}

// roundTrip returns a random round-trip time of a request and its answer.
func (a *attempt) roundTrip() time.Duration {
	f := a.h.fabric
	f.mu.Lock()
	there, back := f.net.Link(a.way), f.net.Link(a.way.Back())
	f.mu.Unlock()
	d := time.Duration(0)
	for _, l := range [2]Link{there, back} {
		d += l.Latency
		if l.Jitter > 0 {
			d += time.Duration(a.random.Int64N(int64(l.Jitter)))
		}
		if l.Loss > 0 && a.random.Float64() < l.Loss {
			f.faults.losses.Add(1)
			d += synFirst
		}
	}
	return d
}

// arrive makes the request arrive at the other host. It returns the stream if the request is accepted, an error
// if it is refused, and neither if it is lost.
func (a *attempt) arrive() (*stream, error) {
	f := a.h.fabric
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, net.ErrClosed
	}
	if !f.net.Open(a.way) || !f.net.Open(a.way.Back()) {
		f.mu.Unlock()
		return nil, nil
	}
	remote := f.device(a.way.To).host
	l := remote.listeners[a.tuple.remote]
	if l == nil {
		f.mu.Unlock()
		f.faults.refusals.Add(1)
		return nil, syscall.ECONNREFUSED
	}
	if old := remote.inUse[tuple{a.tuple.remote, a.tuple.local}]; old != nil {
		// The other host still has a stream to the same address and port of this host, from before this host
		// crashed. TCP detects that and resets it.
		f.mu.Unlock()
		old.c.mu.Lock()
		old.fail(errReset)
		old.c.mu.Unlock()
		f.mu.Lock()
		delete(remote.inUse, tuple{a.tuple.remote, a.tuple.local})
		f.mu.Unlock()
		return nil, nil
	}
	if len(l.queue) >= l.backlog {
		f.mu.Unlock()
		f.faults.overflows.Add(1)
		return nil, nil
	}
	c := a.connect(remote)
	watchers := f.watchers
	f.mu.Unlock()
	for _, established := range watchers {
		established(c)
	}
	if !l.offer(&c.ends[1]) {
		c.Reset()
		_ = c.ends[0].Close() // no caller has it
		_ = c.ends[1].Close()
		return nil, errReset
	}
	return &c.ends[0], nil
}

// connect creates the connection. Fabric.mu is held.
func (a *attempt) connect(remote *Host) *Conn {
	f := a.h.fabric
	c := newConn(f, a.tuple.local, a.tuple.remote)
	f.serial++
	c.serial = f.serial
	for i := range c.pipes {
		p := &c.pipes[i]
		p.random.Seed(a.random.Uint64(), a.random.Uint64())
		if f.config.CutChance > 0 && p.uniform() < f.config.CutChance {
			p.cut, p.cutMode = p.random.Uint64()%uint64(max(f.config.CutWithin, 1)), CutReset
			p.cut = max(p.cut, 1)
		}
	}
	f.conns = append(f.conns, c)
	f.adapt(c)
	a.h.inUse[a.tuple] = &c.ends[0]
	remote.inUse[tuple{a.tuple.remote, a.tuple.local}] = &c.ends[1]
	return c
}

// offer adds a stream to the queue of those to be accepted. It returns false if the listener is closed.
func (l *listener) offer(s *stream) bool {
	l.h.fabric.mu.Lock()
	defer l.h.fabric.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, s)
	l.ready.Signal()
	return true
}

// again waits until the request is to be repeated. It returns an error if the attempt has failed.
func (a *attempt) again(ctx context.Context) error {
	f := a.h.fabric
	f.faults.requestsLost.Add(1)
	f.mu.Lock()
	d := f.device(a.way.To)
	there := d != nil && !d.port.Down
	f.mu.Unlock()
	limit, verdict := synLimit, syscall.ETIMEDOUT
	if !there {
		limit, verdict = neighbourLimit, syscall.EHOSTUNREACH
	}
	waited := f.net.Now() - a.began
	if waited >= limit {
		f.faults.unreachable.Add(1)
		return verdict
	}
	for a.next <= waited {
		a.next = 2*a.next + synFirst
	}
	return f.sleep(ctx, min(a.next, limit)-waited)
}

// fail releases the 4-tuple of a failed attempt and returns err.
func (a *attempt) fail(err error) error {
	a.h.fabric.mu.Lock()
	defer a.h.fabric.mu.Unlock()
	if s, ok := a.h.inUse[a.tuple]; ok && s == nil {
		delete(a.h.inUse, a.tuple)
	}
	return err
}

// sleep waits for the time d. It returns an error if ctx ends or the fabric is closed before.
func (f *Fabric) sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-f.done:
		return net.ErrClosed
	}
}
