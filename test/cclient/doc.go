// Package cclient has a client of lnetd in C, client.c, made from docs/transport-protocol.md
// alone and without any library but libc; and tests that build it, and run it against
// lnetd's side of the protocol, with a peer in Go.
package cclient
