// Package o2iblnd is the LNet driver for RDMA. It implements ko2iblnd's protocol (docs/spec/o2iblnd.md) over
// any verbs.Provider: the machine's devices, or a fabric in memory.
//
// The path of a message: Interface.Send selects a connection of the peer (peer.go), prepares the message's
// memory (tx.go) and posts the message (post.go). On the receiving node, the worker of a completion queue
// (queue.go) passes the completion to protocol.Conn (completion.go), makes the upcall Arrived, and applies the
// placement that the node returns (rx.go). Completions of SENDs wake the worker only if they are awaited
// (post.go). cm.go, dial.go and accept.go make connections. keeper.go starts attempts to connect, enforces
// timeouts and destroys connections.
//
// Goroutines. Per Driver: one for the event channel of the CM (connection manager), one for each device, and a
// worker for each completion queue of a device. Per Interface: a keeper and a link watcher. Close waits for all
// of them.
//
// Lock order: Driver.mu, Interface.mu, the lock of the peer, conn.mu, then those of lnd/peering. A connection's
// lock is held while it posts. No lock is held during an upcall or a completion.
package o2iblnd
