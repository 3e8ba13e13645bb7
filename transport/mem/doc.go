// Package mem is a network in memory for package transport: a Network has hosts, each of
// them is a Core, and their TMs find each other. It serves tests, and programs that want
// both ends in one process.
//
// It behaves as LNet does: what nobody waits for is lost, and its sender does not learn of
// it. Config.Strict has it complain instead, to find mistakes (docs/spec/transport.md 11).
//
// Whoever submits an op carries it out, both sides, before Submit returns; its data is
// copied once, under the lock of the TM that it goes to, which no other lock is taken
// under. The package starts no goroutine.
package mem
