package simlnd

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
)

// Faults counts the faults that happened: each when it bit, not when it was
// ordered.
type Faults struct {
	Resets       uint64 // connections reset, by order or because the other end was closed
	Cuts         uint64 // Conn.Cut, Config.CutChance
	HalfCloses   uint64 // those of them with CutEnd
	Stalls       uint64 // Conn.Stall
	Partitions   uint64 // Fabric.Partition
	DevicesDown  uint64 // Device.SetUp(false)
	Crashes      uint64 // Host.Crash
	Losses       uint64 // writes and requests lost, Link.Loss
	RequestsLost uint64 // connection requests that vanished
	Refusals     uint64 // ECONNREFUSED
	Unreachable  uint64 // attempts given up: ETIMEDOUT, EHOSTUNREACH, ENETUNREACH
	Timeouts     uint64 // ends of connections given up
	Overflows    uint64 // requests dropped by a full backlog
	Corruptions  uint64 // bytes spoilt
	Held         uint64 // connection requests held by a Hold
}

type counters struct {
	resets, cuts, halfCloses, stalls, partitions, devicesDown, crashes, losses, requestsLost,
	refusals, unreachable, timeouts, overflows, corruptions, held atomic.Uint64
}

// Faults returns the counts so far.
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

// Hold keeps connection requests between two places waiting, so that both
// sides can be made to call each other at the same moment.
type Hold struct {
	f        *Fabric
	ways     []way
	waiting  int // guarded by Fabric.mu
	released chan struct{}
}

// Hold begins to hold connection requests.
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

// Waiting is the number of requests that are held.
func (h *Hold) Waiting() int {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.waiting
}

// Release lets all of them go and ends the hold.
func (h *Hold) Release() {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if i := slices.Index(h.f.holds, h); i >= 0 {
		h.f.holds = slices.Delete(h.f.holds, i, i+1)
		close(h.released)
	}
}

// awaitHolds waits until nothing holds requests on the way.
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

// Break resets every connection between two places and returns how many there
// were.
func (f *Fabric) Break(a, b Place) int {
	conns := f.ConnsBetween(a, b)
	for _, c := range conns {
		c.Reset()
	}
	return len(conns)
}
