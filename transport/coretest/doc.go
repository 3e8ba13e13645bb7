// Package coretest is the conformance suite for Cores of package transport. The tests of each Core run it, on
// a network of their choice. It runs complete domains and transfer machines against each other. It contains
// the test cases of transport-tests that are marked (L) or (R), each under its number.
//
// The test of a Core creates a Harness, whose New returns a Network of hosts, and calls Run:
//
//	coretest.Run(t, coretest.Harness{
//		New:    func(t *testing.T, n int) *coretest.Network { ... },
//		Bubble: synctest.Test, // if time can be simulated
//	})
//
// It also calls RandomPrograms, which runs random programs and compares them with a model (program*.go).
//
// A test case records every event, and checks the contents of buffers and the memory around the received
// data. It waits for expected events, for Harness.Patience at most. At the end it closes all TMs, buffers and
// domains. Each group of cases has a file. Goroutines of the suite end with their test case.
package coretest
