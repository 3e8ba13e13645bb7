// Package cclient has a client of lnetd in C, client.c. It was written from docs/transport-protocol.md
// alone and uses no library except libc. The tests build it and run it against lnetd's side of the
// protocol, with a peer in Go.
package cclient
