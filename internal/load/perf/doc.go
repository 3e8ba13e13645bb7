// Package perf compares lnetd with plain TCP. The same exchanges, with the same sizes, run between the
// same two processes: through node and socklnd, through LNet selftest, or between transfer machines, and
// through net.Conn alone. "lnetperf compare" runs the measurement and prints the results side by side.
//
// RunHosted measures programs that use the transfer machines of an lnetd. It compares them with processes
// that share memory, with copies, with plain TCP, and with a program that has its own node. ServeHost and
// ServeGuest are the other processes.
//
// Serve runs in the passive process, and ServeCosts reports the costs of that process. Run measures from
// the active process. Its rounds alternate between the methods, so that all have the same disturbances.
// ComparePaired compares two pairs of processes whose active sides run Perform. An end that polls a
// socket locks its goroutine to a thread.
package perf
