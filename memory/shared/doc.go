// Package shared implements memory that lnetd shares with other processes: sealed areas, ring files, and a
// clock that processes of one host have in common (docs/spec/transport.md 9.3 to 9.6).
//
// A ring file has two rings of entries: submissions, from the other process (the client) to lnetd (the host),
// and completions in the other direction. Each ring has a bell that wakes its sleeping consumer. A Format
// says how large the entries are; the package does not interpret them.
//
// The package trusts no data of the other side: entries are copied before they are used, and counters are
// checked. Callers are responsible for the meaning of entries, and for quotas and permissions. The package
// starts no goroutines.
package shared
