// Package shm encodes and decodes the entries of a TM's ring file: submissions and completions
// (docs/spec/transport.md 9.4). lnetd shares this file with the program whose transfer machine it hosts.
// Package memory/shared implements the file, its rings and their bells.
//
// The package trusts no data of the other side: it copies entries before it validates them. Callers are
// responsible for the meaning of entries, and for credits, quotas and permissions. The package starts no
// goroutines.
package shm
