// Package report defines the values that a console of LNet selftest returns: nodes and their states, results
// of requests to nodes, groups, batches, samples of counters, and differences of samples (selftest 7, 9). The
// console creates them, the control interface transports them, and lnetdctl prints them.
//
// The package starts no goroutines, does no I/O and does not use the clock.
package report
