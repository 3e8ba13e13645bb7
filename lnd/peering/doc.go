// Package peering is the engine under all drivers: everything about peers that does not depend on a protocol.
//
// A driver embeds Engine in its interfaces and Peer in its peers. Engine holds the table of peers, makes the
// upcalls about them in order (Outbox), fails and recalls messages that wait for a connection, probes peers
// that may have restarted, detects stalled peers, counts events, and stops the interface. The driver's type
// of peers implements Member: it opens and closes connections and selects a connection for each message.
// Sending on an established connection takes no lock of the engine except a read lock on the table.
//
// The parts of the engine are also usable alone. Incarnations, Backoff, Doubt, Stall and Waiting are states
// of one peer, and Departed keeps what is known of peers that have left the table. HalfOpen and Admission
// limit callers, and Refusals counts and logs refused callers. Calls schedules this node's own attempts to
// connect, and CallFailures counts and logs failed attempts. Interfaces is the table of open interfaces.
//
// Apart from Engine.WatchLink and Engine.Stop, the package starts no goroutines. A type that is not safe for
// concurrent use is guarded by a lock of its owner.
package peering
