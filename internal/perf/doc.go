// Package perf measures lnetd against plain TCP: the same exchanges, of the
// same sizes, between the same two processes, once through node and socklnd,
// through LNet selftest, or between transfer machines, and once with nothing
// but net.Conn. "lnetperf compare" runs it and prints the figures side by side.
//
// RunHosted measures what programs of an lnetd have, beside processes that share memory,
// copies, plain TCP, and a program with a node of its own; ServeHost and ServeGuest are the
// other processes.
//
// Serve is the passive process, with TellCosts, which tells what it pays; Run measures from
// the active one, in rounds that take turns so that both sides see the same noise. Against
// does so in two pairs of processes that Perform. A spinning end has a locked thread.
package perf
