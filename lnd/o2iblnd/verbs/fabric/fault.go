package fabric

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Faults counts faults. A fault counts when it takes effect, not when it is requested.
type Faults struct {
	network.Faults
	Losses         uint64 // messages lost, Link.Loss
	Stalls         uint64 // messages that found no path, or no queue pair to receive them
	CMLosses       uint64 // messages of the connection manager lost, Link.CMLoss
	Retries        uint64 // messages retransmitted for any reason
	RetryExceeded  uint64 // connections that failed because of Retries
	RNR            uint64 // messages that found no posted receive, including Link.RNR
	RNRExceeded    uint64 // connections that failed because of RNR
	Breaks         uint64 // Fabric.Break, Link.Break
	Failures       uint64 // requests that failed, Link.Fail
	Stale          uint64 // requests rejected as stale, Link.Stale
	Rejects        uint64 // rejects of all kinds
	Unreachable    uint64 // failed connection attempts
	Protection     uint64 // forbidden accesses: a key does not allow them, or memory was closed while posted work names it
	Overflows      uint64 // completion queues that overflowed
	Removals       uint64 // Device.Remove
	Kills, Crashes uint64 // Process.Kill, Host.Crash
	EarlyMessages  uint64 // messages that arrived before EventEstablished
}

type counters struct {
	losses, stalls, cmLosses, retries, retryExceeded, rnr, rnrExceeded, breaks, failures, stale, rejects, unreachable, protection,
	overflows, removals, kills, crashes, early atomic.Uint64
}

// Faults returns the counters.
func (f *Fabric) Faults() Faults {
	c := &f.faults
	return Faults{
		Faults: f.net.Count(),
		Losses: c.losses.Load(), Stalls: c.stalls.Load(), CMLosses: c.cmLosses.Load(), Retries: c.retries.Load(),
		RetryExceeded: c.retryExceeded.Load(), RNR: c.rnr.Load(), RNRExceeded: c.rnrExceeded.Load(), Breaks: c.breaks.Load(), Failures: c.failures.Load(),
		Stale: c.stale.Load(), Rejects: c.rejects.Load(), Unreachable: c.unreachable.Load(), Protection: c.protection.Load(),
		Overflows: c.overflows.Load(), Removals: c.removals.Load(),
		Kills: c.kills.Load(), Crashes: c.crashes.Load(), EarlyMessages: c.early.Load(),
	}
}
