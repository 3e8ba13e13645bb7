// Package verbstest is the conformance suite of package verbs. The tests of each implementation run it.
// It also has a server for the processes that the suite kills.
//
// Implementations may differ, and a driver must support all of them. The suite therefore accepts several
// results: the status of an error caused by a local key or a long message; whether work posted after an
// error is flushed or discarded (soft-RoCE flushes requests and discards receives); more room than
// requested; and whether the listening side gets an event when the dialling side gives up before Accept.
//
// Each end of a test has goroutines at its channel, its completion queue and its device, like a driver.
// They end before the test does.
package verbstest
