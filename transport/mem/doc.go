// Package mem is a network in memory for package transport. A Network has hosts, and each host is a Core. TMs
// on all hosts can reach each other. The package is meant for tests and for programs that have both ends in
// one process.
//
// The network behaves like LNet: data without a matching buffer is lost without an error at the sender. If
// Config.Strict is set, such data causes an error, which helps to find bugs (docs/spec/transport.md 11).
//
// Submit carries out both sides of an op before it returns. It copies the data once, with the lock of the
// destination TM held; no lock of another TM is acquired under it. The package starts no goroutines.
package mem
