// Package soak runs two nodes in two processes over TCP on the loopback device,
// at full rate and with connections killed at random, and checks that nothing
// that was acknowledged is lost, nothing comes twice, every operation ends
// exactly once and memory stays flat. Each node knows one NID of the other and
// learns the rest by discovery before connections break; all rails then carry messages. Its test runs it for some seconds,
// `make soak TIME=30m` for longer.
//
// Run is the parent process; it talks to Serve, the child, over pipes. Both
// have the same work: a sender, a receiver and a breaker.
//
// Goroutines of a process: the sender's pacer, the breaker's killer, the
// sampler, the reader of notes. Run and Serve wait for all of them.
package soak
