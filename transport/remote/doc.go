// Package remote is the Core of package transport that uses an lnetd process on this host. Many programs
// share lnetd's NIDs, isolated from each other (docs/spec/transport.md 8, 9).
//
// A domain is one connection to lnetd. Requests use a socket (type connection). Ops and completions pass
// through rings in shared memory (tm). Payload is in areas of shared memory (store), so it is not copied.
// Whole pages of other private memory are replaced in place by pages of an area (place). All other memory is
// copied (foreignMemory). When a buffer ends, lnetd keeps its registration for the next buffer of the same
// memory (idle).
//
// An op begins when lnetd reads it from the ring, shortly after Submit has returned. Ops of one TM begin in
// order. If peers are to reach a buffer, Add waits until lnetd has carried out the op (Flush), so that they
// can reach the buffer when Add returns. Add does not wait for other ops (transport 9.12).
//
// When lnetd ends, every TM of the domain fails with EPIPE, and the program needs a new domain. A request to
// end an object waits for lnetd at most for Config.Patience; then the connection is closed, as if lnetd had
// ended. Other requests wait until their context ends, and ops wait until lnetd continues. All descriptors
// are closed on exec. A child process that was created by fork without exec shares them, and so keeps its
// parent's connection open; the child must not use the connection.
//
// Each connection has a goroutine that reads from it. There is another goroutine for each request whose
// caller has given up, until lnetd has answered and the request has been undone, and for each eviction of
// registrations. Close waits for all of them.
//
// No system call is made with tm.mu, store.mu or idle.mu held. exchange.mu and exchange.copyLock are held
// while pages are exchanged, which takes a few system calls but no request to lnetd; store.mu may be acquired
// under them. Copying received data acquires exchange.copyLock with tm.mu held. No mutex is held during a
// request to lnetd.
package remote
