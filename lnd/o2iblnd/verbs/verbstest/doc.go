// Package verbstest is the conformance suite of package verbs. The tests of each implementation run it. It also
// has a server for the processes that the suite kills.
//
// Implementations may differ, and a driver must support all of them. Therefore the suite accepts several
// results in some cases: the status of an error that a local key or a too long message causes; whether work
// that is posted after an error is flushed or discarded (soft-RoCE flushes requests and discards receives);
// more room than requested; and whether the receiver of a connection request gets an event when the sender no
// longer waits for the answer.
//
// Each end of a test has goroutines at its channel, its completion queue and its device, like a driver. They
// end before the test does.
package verbstest
