// Package peering holds what all drivers need to manage peers. Interfaces is the table of open
// interfaces. Incarnations, Backoff and Departed hold what is known of a peer, also after it has left.
// HalfOpen and Admission limit callers, and Refusals counts and logs those that are turned away. Calls
// schedules this node's own attempts to connect, and CallFailures counts and logs those that fail.
// Waiting holds messages that wait for a connection. Outbox makes upcalls and completions in order. Stall
// detects peers that do not answer.
//
// It runs no goroutine and reads no clock. Types that are not safe for concurrent use are guarded by a lock
// of their owner.
package peering
