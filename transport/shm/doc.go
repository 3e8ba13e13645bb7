// Package shm encodes and decodes the entries of a TM's ring file, which lnetd shares with a program whose
// transfer machine it hosts: submissions and completions (docs/spec/transport.md 9.4). Package memory/shared
// implements the file, its rings and their bells.
//
// The package trusts no data of the other side: entries are copied before they are validated. Callers are
// responsible for the meaning of entries, and for credits, quotas and permissions. The package starts no
// goroutines.
package shm
