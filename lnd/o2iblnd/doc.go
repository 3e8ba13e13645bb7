// Package o2iblnd is the LNet driver for RDMA. It implements ko2iblnd's protocol (docs/spec/o2iblnd.md)
// over any verbs.Provider: the machine's devices, or a fabric in memory.
//
// The path of a message: Interface.Send selects a connection of the peer (peer.go), prepares the
// message's memory (tx.go) and posts it (conn.go). On the other side, the worker of a completion queue
// (queue.go) passes completions to protocol.Conn, makes the upcall, and applies the placement that it
// gets back (rx.go). cm.go, dial.go and accept.go make connections. keeper.go starts attempts, enforces
// timeouts and destroys connections.
//
// Goroutines: one for the event channel (Driver), one for each device and one for each of its
// completion queues. Per Interface: a keeper and, with a Network, a link watcher. Close waits for all
// of them.
//
// Lock order: Driver.mu, Interface.mu, the lock of the peer, conn.mu, then those of lnd/peering. A connection's
// lock is held while it posts. No lock is held across an upcall or a completion.
package o2iblnd
