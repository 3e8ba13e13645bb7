// Package shm implements the memory shared by lnetd and the programs whose transfer machines it hosts: areas
// for buffers, and one ring file for each TM. A ring file contains a ring of submissions and a ring of
// completions. Each ring has a bell, which wakes the side that reads the ring if it sleeps
// (docs/spec/transport.md 9.3 to 9.6).
//
// The package handles memory layouts and trusts no data of the other side: it copies entries before it
// validates them, and it checks counters. Callers are responsible for the meaning of entries, and for
// credits, quotas and permissions. The package starts no goroutines.
package shm
