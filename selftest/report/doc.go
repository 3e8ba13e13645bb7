// Package report is what a console of LNet selftest tells: nodes and their states,
// what came of asking them, groups, batches, samples of counters, and what follows
// from two samples (selftest 7, 9). The console makes these values, the control
// interface carries them, and lnetdctl shows them without having a console.
//
// It is pure: no goroutine, no clock, no I/O.
package report
