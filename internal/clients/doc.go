// Package clients hosts transfer machines for other processes: lnetd's side of the protocol
// of docs/spec/transport.md 9. A Server accepts connections on a Unix socket; each of them
// is a domain of its client, over a Core within this process. Control records are answered
// in order; operations come through a ring in shared memory for each transfer machine, and
// completions go back through another one, from whichever goroutine of the Core makes them.
//
// What a client says or writes is copied, checked, and only then believed (9.9). Who breaks
// the rules is cut off with a reason; who dies, or is cut off, leaves nothing behind (8.5).
//
// Goroutines: Serve, in which connections are accepted; one per connection, that answers
// requests and, at the end, clears up; one per TM, that takes submissions out of its ring.
// Close waits for all of them. Of locks, tm.mu may be taken under client.mu, and both
// under tm.taking, and no other one under another; but for tm.taking none is held while a Core
// is called, and a Core may hold its own when it calls a tm. Records that need no wait are sent
// under client.mu: behind the reason for which a client is cut off comes no other one.
package clients
