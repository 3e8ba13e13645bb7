// Package o2iblnd is the LNet driver for RDMA: it speaks ko2iblnd's protocol
// (docs/spec/o2iblnd.md) over any verbs.Provider: the machine's devices, or a fabric in
// memory.
//
// Follow a message: Interface.Send picks a connection of the peer (peer.go), prepares
// its memory (tx.go) and posts it (conn.go); on the other side the worker of a
// completion queue (queue.go) feeds protocol.Conn, calls up, and takes the place that
// comes back (rx.go). cm.go, dial.go and accept.go make connections; keeper.go dials,
// times out and buries them.
//
// Goroutines: one at the event channel (Driver), one at each device and each of its
// completion queues; per Interface a keeper and, with a Network, a link watcher. Close
// waits for all. Locks, in this order: Driver.mu, Interface.mu, peer.mu, conn.mu. A
// connection's is held while it posts; none across an upcall or a completion.
package o2iblnd
