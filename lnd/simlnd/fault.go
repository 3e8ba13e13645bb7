package simlnd

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Faults counts faults. A fault is counted when it takes effect, not when a test requests it.
type Faults struct {
	network.Faults
	Resets       uint64 // connections that were reset, by a test or because the other end was closed
	Cuts         uint64 // effects of Conn.Cut and Config.CutChance
	HalfCloses   uint64 // effects of Conn.Cut with CutEnd
	Stalls       uint64 // effects of Conn.Stall
	Crashes      uint64 // calls of Host.Crash
	Losses       uint64 // writes and connection requests that were lost (Link.Loss)
	RequestsLost uint64 // connection requests that had no answer and were repeated
	Refusals     uint64 // attempts to connect that failed with ECONNREFUSED
	Unreachable  uint64 // attempts to connect that failed with ETIMEDOUT, EHOSTUNREACH or ENETUNREACH
	Timeouts     uint64 // ends of connections that timed out
	Overflows    uint64 // connection requests dropped because the backlog was full
	Corruptions  uint64 // bytes that were corrupted
}

type counters struct {
	resets, cuts, halfCloses, stalls, crashes, losses, requestsLost,
	refusals, unreachable, timeouts, overflows, corruptions atomic.Uint64
}

// Faults returns the counters.
func (f *Fabric) Faults() Faults {
	c := &f.faults
	return Faults{
		Faults:       f.net.Count(),
		Resets:       c.resets.Load(),
		Cuts:         c.cuts.Load(),
		HalfCloses:   c.halfCloses.Load(),
		Stalls:       c.stalls.Load(),
		Crashes:      c.crashes.Load(),
		Losses:       c.losses.Load(),
		RequestsLost: c.requestsLost.Load(),
		Refusals:     c.refusals.Load(),
		Unreachable:  c.unreachable.Load(),
		Timeouts:     c.timeouts.Load(),
		Overflows:    c.overflows.Load(),
		Corruptions:  c.corruptions.Load(),
	}
}

// Hold delays connection requests between two places until it is released.
type Hold = network.Hold[Link]

// Hold starts to delay connection requests between two places in the direction d, until Release of the result
// is called.
func (f *Fabric) Hold(a, b Place, d Direction) *Hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.net.Hold(ways(a, b, d))
}

// awaitHolds waits until no Hold applies to the way w.
func (f *Fabric) awaitHolds(ctx context.Context, w network.Way) error {
	for {
		released := make(chan struct{})
		f.mu.Lock()
		cancel := f.net.Delay(w, func() { close(released) })
		f.mu.Unlock()
		if cancel == nil {
			return nil
		}
		var err error
		select {
		case <-released:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-f.done:
			err = net.ErrClosed
		}
		f.mu.Lock()
		cancel()
		f.mu.Unlock()
		return err
	}
}

// Break resets every connection between two places and returns their number.
func (f *Fabric) Break(a, b Place) int {
	conns := f.ConnsBetween(a, b)
	for _, c := range conns {
		c.Reset()
	}
	return len(conns)
}
