// Package peering holds what all drivers need to manage peers: the table of open interfaces, the
// incarnations of peers, the back-off between attempts to connect, the record of departed peers, the order
// of outgoing calls, and counters of refused callers and failed calls.
//
// It runs no goroutine and reads no clock. Types that are not safe for concurrent use are guarded by a lock
// of their owner.
package peering
