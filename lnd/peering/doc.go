// Package peering is the engine under all drivers: everything about peers that does not depend on a protocol.
//
// A driver embeds Engine in its interfaces and Peer in its peers. Engine holds the table of peers, makes the
// upcalls about them in order (Outbox), fails and recalls messages that wait for a connection, probes peers in
// doubt, judges stalls, counts, and stops the interface. The driver's peers, a Member, make and end connections,
// and choose one for each message: an established connection is used without a lock of the engine.
//
// The parts of the engine are also usable alone. Incarnations, Backoff, Doubt, Stall and Waiting are states of one
// peer, and Departed keeps what is known of peers that have left. HalfOpen and Admission limit callers, and
// Refusals counts and logs those that are turned away. Calls schedules this node's own attempts to connect, and
// CallFailures counts and logs those that fail. Interfaces is the table of open interfaces.
//
// Apart from Engine.WatchLink, the package runs no goroutine. Types that are not safe for concurrent use are guarded by a lock of their owner.
package peering
