// Package soak runs two nodes in two processes over TCP on the loopback device, at full rate, and kills
// connections at random. It checks that no acknowledged message is lost, that none arrives twice, that
// every operation ends exactly once and that memory does not grow. Each node is configured with one NID
// of the other and discovers the rest before connections are broken. Then all rails carry messages. The
// test takes a few seconds, `make soak TIME=30m` takes longer.
//
// Run is the parent process. It communicates with Serve, the child, over pipes. Both do the same work,
// with a sender, a receiver and a breaker.
//
// Goroutines of a process are the one that replaces operations of the sender, the one that breaks
// connections, the sampler, and the reader of notes. Run and Serve wait for all of them.
package soak
