package network

import "sync/atomic"

// Faults counts the faults of a network. A fault is counted when it takes effect, not when a test requests it.
type Faults struct {
	Partitions uint64 // calls of Partition
	Down       uint64 // ports that were switched off
	Held       uint64 // connection requests delayed by a Hold
}

type counters struct{ partitions, down, held atomic.Uint64 }

// Count returns the counters. It may be called without the lock.
func (n *Network[L]) Count() Faults {
	c := &n.counters
	return Faults{Partitions: c.partitions.Load(), Down: c.down.Load(), Held: c.held.Load()}
}
