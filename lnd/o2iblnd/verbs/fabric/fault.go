package fabric

import "sync/atomic"

// Faults counts the faults that happened: each when it bit, not when it was ordered.
type Faults struct {
	Losses         uint64 // messages lost, Link.Loss
	Stalls         uint64 // messages that found no way, or no queue pair that takes them
	CMLosses       uint64 // messages of the connection manager lost, Link.CMLoss
	Retries        uint64 // messages sent again, for whatever reason
	RetryExceeded  uint64 // connections that failed so
	RNR            uint64 // messages that found no receive, Link.RNR too
	RNRExceeded    uint64 // connections that failed so
	Breaks         uint64 // Fabric.Break, Link.Break
	Failures       uint64 // requests that failed, Link.Fail
	Stale          uint64 // requests rejected as stale, Link.Stale
	Rejects        uint64 // rejects of all kinds
	Unreachable    uint64 // attempts given up
	Protection     uint64 // accesses to memory that a key does not allow
	Overflows      uint64 // completion queues that overflowed
	Cuts           uint64 // Fabric.Cut; a Partition is two
	PortsDown      uint64 // Port.SetUp(false)
	Removals       uint64 // Device.Remove
	Kills, Crashes uint64 // Process.Kill, Host.Crash
	Held           uint64 // requests held by a Hold
	EarlyMessages  uint64 // messages that came before ESTABLISHED
}

type counters struct {
	losses, stalls, cmLosses, retries, retryExceeded, rnr, rnrExceeded, breaks, failures, stale, rejects, unreachable, protection,
	overflows, cuts, portsDown, removals, kills, crashes, held, early atomic.Uint64
}

// Faults returns the counts so far.
func (f *Fabric) Faults() Faults {
	c := &f.faults
	return Faults{
		Losses: c.losses.Load(), Stalls: c.stalls.Load(), CMLosses: c.cmLosses.Load(), Retries: c.retries.Load(),
		RetryExceeded: c.retryExceeded.Load(), RNR: c.rnr.Load(), RNRExceeded: c.rnrExceeded.Load(), Breaks: c.breaks.Load(), Failures: c.failures.Load(),
		Stale: c.stale.Load(), Rejects: c.rejects.Load(), Unreachable: c.unreachable.Load(), Protection: c.protection.Load(),
		Overflows: c.overflows.Load(), Cuts: c.cuts.Load(), PortsDown: c.portsDown.Load(), Removals: c.removals.Load(),
		Kills: c.kills.Load(), Crashes: c.crashes.Load(), Held: c.held.Load(), EarlyMessages: c.early.Load(),
	}
}
