// Package mem is a network in memory for package transport. A Network has hosts. Each host is a Core, and
// their TMs can reach each other. It is meant for tests and for programs that have both ends in one
// process.
//
// It behaves like LNet: data without a matching buffer is lost without an error at the sender.
// Config.Strict reports such cases as errors, which helps to find bugs (docs/spec/transport.md 11).
//
// Submit carries out both sides of an op before it returns. It copies the data once, with the lock of the
// destination TM held; no second TM lock is acquired under it. The package starts no goroutines.
package mem
