// Package perf measures lnetd against plain TCP: the same exchanges, of the
// same sizes, between the same two processes, once through node and socklnd,
// through LNet selftest, or between transfer machines, and once with nothing
// but net.Conn. "lnetperf compare" runs it and prints the figures side by side.
//
// Serve is the passive process; Run measures from the active one, in rounds
// that take turns so that both sides see the same noise.
package perf
