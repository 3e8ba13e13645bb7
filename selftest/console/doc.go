// Package console controls LNet selftest. It creates a session on other nodes, puts the nodes into groups,
// adds batches of tests to them, runs the batches, and reads counters (selftest 7, 9). A Console has one
// session at a time. Control commands and programs call it, from several goroutines if they like.
//
// There is one goroutine per session, which keeps the session alive on its nodes and ends it if no command
// has arrived for too long; one per round of keep-alive requests; one that ends a session; and one per run
// with a time limit. Close waits for all of them. RPCs need no goroutine: a transaction collects their
// results in the goroutine of the command.
//
// Console.mu guards all state and is not held during calls of other packages. A command that changes the
// session holds session.slot, a lock, also during its RPCs. It acquires the slot before mu.
package console
