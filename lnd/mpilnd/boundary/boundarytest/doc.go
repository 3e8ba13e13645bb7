// Package boundarytest is the conformance suite of package boundary. The tests of each implementation run it, with a
// job of four ranks.
//
// Cases returns the tests. Every rank of the job runs each of them (Case.Run), in the same order, in the goroutine that
// makes the rank's calls. The ranks may be goroutines of one process or processes: they exchange only messages.
// Connections returns tests of two jobs that connect to each other.
//
// Libraries may differ, and a driver must support all of them. Therefore the suite accepts several results in some
// cases: whether a send without a receive is complete, in which order requests complete, and whether a receive whose
// message arrives while it is cancelled has the message or leaves it to the next receive.
package boundarytest
