// Package diagnosis derives findings from facts: what is wrong with a node, its host and a peer, why, and what to
// do about it.
//
// Facts are what the control interface of lnetd, the host and probes of a peer have shown; internal/lnetd/doctor
// collects them. Examine is a pure function from facts to findings. Each kind of finding is one entry of the table
// Kinds, from which docs/findings.md is made, and one check. A check that lacks the facts that it needs finds
// nothing. The package does no I/O, reads no clock and starts no goroutines.
package diagnosis
