// Package lndtest is the conformance suite of the driver contract in package
// lnd: every driver's tests run it, over whatever network they have.
//
// A driver's test makes a Harness, which opens interfaces and breaks things
// where it can, and calls Run. The suite plays the node above: a recorder
// notes every upcall and every completion, payloads carry a pattern that
// depends on message and position, and memory around a placement is guarded.
// Each case ends with closing all interfaces and checking that everything
// handed down was completed exactly once and nothing happened afterwards.
//
// There is a file for each theme. The suite's goroutines end with their case.
package lndtest
