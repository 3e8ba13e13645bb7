// Package remote is the Core of package transport that uses an lnetd process on this host. Many programs
// share lnetd's NIDs, isolated from each other (docs/spec/transport.md 8, 9).
//
// A domain is one connection to lnetd. Requests use a socket (connection). Ops and completions pass through
// rings in shared memory (tm). Payload is in shared areas (store), so it is not copied. Whole pages of
// other private memory are made part of an area in place (place). All other memory is copied (own). The
// domain keeps registrations for the next buffer of the same memory (idle).
//
// An op begins when lnetd reads it from the ring, shortly after Submit has returned. Ops of one TM begin in
// order. For buffers that peers are to reach, Add waits until lnetd has carried out the op (Flush), so that
// peers can reach the buffer when Add returns. Add does not wait for other ops (transport 9.12).
//
// When lnetd ends, every TM of the domain fails with EPIPE, and a new domain is needed. If lnetd does not
// answer a request to end an object within Config.Patience, the connection is given up as if lnetd had
// ended. Other requests wait until their context ends, and ops until lnetd continues. All descriptors are
// closed on exec. A child created by fork without exec shares them and keeps its parent's connection open;
// it must not use it.
//
// Each connection has a goroutine that reads from it. Another goroutine exists for each request whose
// caller has given up, until the request is undone, and for each eviction of registrations. Close waits for
// all of them.
//
// No system call is made with tm.mu, store.mu or idle.mu held. exchange.mu and exchange.copyLock are held
// while pages are exchanged, which takes a few system calls but no request to lnetd; store.mu may be
// acquired under them. Copying received data acquires exchange.copyLock with tm.mu held. No mutex is held
// during a request to lnetd.
package remote
