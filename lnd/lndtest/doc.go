// Package lndtest is the conformance suite for the driver contract in package lnd. The tests of every
// driver run it over their own network.
//
// A driver's test creates a Harness, which opens interfaces and causes faults where it can, and calls
// Run. The suite plays the part of the node: a recorder keeps every upcall and every completion, payloads
// carry a pattern that depends on message and position, and the memory around a placement is guarded. At
// the end of each case, all interfaces are closed. The suite then checks that everything that was sent
// was completed exactly once, and that nothing happened after Close.
//
// There is one file per topic. The goroutines of a case end with it.
package lndtest
