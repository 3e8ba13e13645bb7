// Package clients lets other processes use transfer machines (TMs) of lnetd. It is the server side of the
// protocol in docs/spec/transport.md 9. A Server accepts connections on a Unix socket. Each connection is
// one domain of a Core in this process. Control requests are answered in order. Each TM has two rings in
// shared memory: the client writes operations to one, and lnetd writes completions to the other, from the
// goroutine in which the Core reports them.
//
// Everything that a client sends or writes is copied and validated before it is used (transport 9.9). A
// client that violates the protocol is disconnected with a reason. When a client exits or is disconnected,
// all of its resources are released (transport 8.5).
//
// Goroutines: Serve accepts connections. Each connection has one goroutine, which answers requests and
// cleans up at the end. Each TM has one goroutine, which reads submissions from its ring. While submissions follow each
// other, a hub does that for several TMs, in a goroutine with its own thread. There are fewer hubs than processors. Close
// waits for all of them.
//
// Lock order: tm.roundMu, then client.mu, then tm.mu, then users.mu. No other two locks are held together. Only tm.roundMu
// may be held during a call of a Core, and a Core may hold its own locks when it calls a tm. Records that
// can be sent without blocking are sent under client.mu, so that no record follows the reason for a
// disconnect.
package clients
