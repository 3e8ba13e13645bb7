// Package verbstest is the conformance suite of package verbs, which each of its
// implementations runs, and a server for processes that the suite has killed.
//
// Where implementations may differ, which a driver has to bear, the suite allows both:
// completions of a queue pair that was destroyed, an end of a connection that is told with one event or
// another, more room than was asked for. Its tests say so.
//
// Each end of a test has a goroutine at its channel, its completion queue and its device, as a
// driver has them; they end before the test does.
package verbstest
