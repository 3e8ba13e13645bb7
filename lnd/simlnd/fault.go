package simlnd

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
)

// Faults counts faults. A fault counts when it takes effect, not when it is requested.
type Faults struct {
	Resets       uint64 // connections reset, on request or because the other end was closed
	Cuts         uint64 // Conn.Cut, Config.CutChance
	HalfCloses   uint64 // Cuts with CutEnd
	Stalls       uint64 // Conn.Stall
	Partitions   uint64 // Fabric.Partition
	DevicesDown  uint64 // Device.SetUp(false)
	Crashes      uint64 // Host.Crash
	Losses       uint64 // writes and requests lost, Link.Loss
	RequestsLost uint64 // connection requests that were lost
	Refusals     uint64 // ECONNREFUSED
	Unreachable  uint64 // failed attempts: ETIMEDOUT, EHOSTUNREACH, ENETUNREACH
	Timeouts     uint64 // ends of connections that timed out
	Overflows    uint64 // requests dropped by a full backlog
	Corruptions  uint64 // bytes that were corrupted
	Held         uint64 // connection requests delayed by a Hold
}

type counters struct {
	resets, cuts, halfCloses, stalls, partitions, devicesDown, crashes, losses, requestsLost,
	refusals, unreachable, timeouts, overflows, corruptions, held atomic.Uint64
}

// Faults returns the counters.
func (f *Fabric) Faults() Faults {
	c := &f.faults
	return Faults{
		Resets:       c.resets.Load(),
		Cuts:         c.cuts.Load(),
		HalfCloses:   c.halfCloses.Load(),
		Stalls:       c.stalls.Load(),
		Partitions:   c.partitions.Load(),
		DevicesDown:  c.devicesDown.Load(),
		Crashes:      c.crashes.Load(),
		Losses:       c.losses.Load(),
		RequestsLost: c.requestsLost.Load(),
		Refusals:     c.refusals.Load(),
		Unreachable:  c.unreachable.Load(),
		Timeouts:     c.timeouts.Load(),
		Overflows:    c.overflows.Load(),
		Corruptions:  c.corruptions.Load(),
		Held:         c.held.Load(),
	}
}

// Hold delays connection requests between two places. With it, a test can make both sides connect to each
// other at the same moment.
type Hold struct {
	f        *Fabric
	ways     []way
	waiting  int // guarded by Fabric.mu
	released chan struct{}
}

// Hold starts to delay connection requests.
func (f *Fabric) Hold(a, b Place, d Direction) *Hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &Hold{f: f, released: make(chan struct{})}
	for w := range f.ways(a, b, d) {
		h.ways = append(h.ways, w)
	}
	f.holds = append(f.holds, h)
	return h
}

// Waiting returns the number of requests that are delayed.
func (h *Hold) Waiting() int {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.waiting
}

// Release lets all delayed requests continue and ends the hold.
func (h *Hold) Release() {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if i := slices.Index(h.f.holds, h); i >= 0 {
		h.f.holds = slices.Delete(h.f.holds, i, i+1)
		close(h.released)
	}
}

// awaitHolds waits until no Hold applies to the way.
func (f *Fabric) awaitHolds(ctx context.Context, w way) error {
	for {
		h := f.enterHold(w)
		if h == nil {
			return nil
		}
		var err error
		select {
		case <-h.released:
		case <-ctx.Done():
			err = ctx.Err()
		case <-f.done:
			err = net.ErrClosed
		}
		f.mu.Lock()
		h.waiting--
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (f *Fabric) enterHold(w way) *Hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.holds {
		if slices.Contains(h.ways, w) {
			h.waiting++
			f.faults.held.Add(1)
			return h
		}
	}
	return nil
}

// Break resets every connection between two places and returns their number.
func (f *Fabric) Break(a, b Place) int {
	conns := f.ConnsBetween(a, b)
	for _, c := range conns {
		c.Reset()
	}
	return len(conns)
}
