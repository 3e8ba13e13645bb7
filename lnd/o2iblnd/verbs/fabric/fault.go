package fabric

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd/simlnd/network"
)

// Faults counts faults. A fault is counted when it takes effect, not when a test requests it.
type Faults struct {
	network.Faults
	Losses         uint64 // messages of queue pairs that were lost (Link.Loss)
	Stalls         uint64 // messages that could not be delivered because the path or the peer's queue pair was missing
	CMLosses       uint64 // messages of the CM that were lost (Link.CMLoss)
	Retries        uint64 // retransmissions of messages, for any reason
	RetryExceeded  uint64 // connections that failed after the last retransmission
	RNR            uint64 // messages for which no receive was posted, including Link.RNR
	RNRExceeded    uint64 // connections that failed because of RNR
	Breaks         uint64 // connections broken by Fabric.Break or Link.Break
	Failures       uint64 // requests that failed at the peer (Link.Fail)
	Stale          uint64 // connection requests rejected as stale (Link.Stale)
	Rejects        uint64 // rejects of all kinds
	Unreachable    uint64 // failed connection attempts
	Protection     uint64 // accesses that a key does not allow, and memory that was closed while posted work refers to it
	Overflows      uint64 // completion queues that overflowed
	Removals       uint64 // devices removed by Device.Remove
	Kills, Crashes uint64 // calls of Process.Kill and of Host.Crash
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
