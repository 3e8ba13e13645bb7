// Package lndtest is the conformance suite for the driver contract in package lnd. The tests of every driver
// run it over their own network.
//
// A driver's test calls Run with a Harness, which opens interfaces and causes faults, as far as the driver's
// network supports them. The suite plays the part of the node: it records every upcall and every completion.
// Payloads have a pattern that depends on the message and the position, and the memory around a placement is
// guarded. At the end of each case, all interfaces are closed. The suite then checks that every message that
// was sent has completed exactly once, and that nothing has happened after Close.
//
// There is one file per topic. The goroutines of a case end with it.
package lndtest
