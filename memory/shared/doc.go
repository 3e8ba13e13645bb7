// Package shared implements memory that lnetd shares with other processes: sealed areas, ring files, and a
// clock that the processes of one host have in common (docs/spec/transport.md 9.3 to 9.6).
//
// A ring file has two rings of entries: submissions, from the other process (the client) to lnetd (the host),
// and completions in the other direction. Each ring has a bell, which wakes the side that reads the ring if
// it sleeps. A Format defines the sizes of the entries; the package does not interpret their content.
//
// The package trusts no data of the other side: it copies entries before they are used, and it checks
// counters. Callers are responsible for the meaning of entries, and for quotas and permissions. The package
// starts no goroutines.
package shared
