// Package shm implements the memory shared by lnetd and the programs whose transfer machines it hosts:
// areas for buffers, and one ring file for each TM. A ring file has a ring of submissions and a ring of
// completions. Each ring has a bell that wakes its sleeping consumer (docs/spec/transport.md 9.3 to 9.6).
//
// The package handles memory layouts and trusts no data of the other side: entries are copied before they
// are validated, and counters are checked. Callers are responsible for the meaning of entries, and for
// credits, quotas and permissions. The package starts no goroutines.
package shm
