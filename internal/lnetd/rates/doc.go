// Package rates computes how fast counters grow from samples of them. It does no I/O. The commands of lnetdctl that print
// rates use it.
package rates
