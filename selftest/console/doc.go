// Package console drives LNet selftest: it makes a session on other nodes, sorts
// them into groups, gives them batches of tests, runs those, and reads counters
// (selftest 7, 9). A Console holds one session at a time; control commands and
// programs call it, any number at once.
//
// Goroutines, all waited for by Close: one per session, which keeps it alive on
// its nodes and ends it when nobody has given a command for too long, and one per
// round of asking those; one that ends a session; one per run that is to stop by
// itself. RPCs have none: a transaction collects their ends in its caller's.
//
// Console.mu guards all state and is never held across a call of another
// package. A session's slot is held by commands that change it, RPCs included,
// and taken before mu.
package console
