// Package console controls LNet selftest. It makes a session on other nodes, sorts them into groups,
// gives them batches of tests, runs those, and reads counters (selftest 7, 9). A Console has one session
// at a time. Control commands and programs call it, concurrently if they like.
//
// Goroutines: one per session, which keeps it alive on its nodes and ends it if no command has come for
// too long; one per round of keep-alive requests; one that ends a session; one per run with a time limit.
// Close waits for all of them. RPCs need no goroutine: a transaction collects their results in the
// caller's goroutine.
//
// Console.mu guards all state and is not held during calls of other packages. A command that changes the
// session holds the session's slot, also during its RPCs. It acquires the slot before mu.
package console
