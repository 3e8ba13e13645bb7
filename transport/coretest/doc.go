// Package coretest is the conformance suite of package transport over a Core: every Core's
// tests run it, over whatever network they have. It runs whole domains and transfer
// machines against each other, and shows the behaviours of transport-tests that are marked
// (L) or (R), each by its number.
//
// A Core's test makes a Harness, whose New makes a Network of hosts, and calls Run:
//
//	coretest.Run(t, coretest.Harness{
//		New:    func(t *testing.T, n int) *coretest.Network { ... },
//		Bubble: synctest.Test, // if time can be simulated
//	})
//
// Stories runs random programs beside a model (story*.go); a Core's test calls it, too.
//
// A case records every event, checks contents and what lies around them, waits for what
// must happen for Harness.Patience at most, and ends with closing all TMs, buffers and
// domains. There is a file for each group; the suite's goroutines end with their case.
package coretest
