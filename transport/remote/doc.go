// Package remote is the Core of package transport over an lnetd that runs on this host, in
// another process: many programs share its NIDs, and none of them can hurt another
// (docs/spec/transport.md 8, 9).
//
// A domain is one connection to lnetd. Requests go over a socket (connection), ops and
// completions through rings in memory that both map (tm), and payload lies in areas that
// both map (store), so it is not copied on its way. Whole pages of other private memory become
// part of an area in place (place); what is neither is copied (own). The domain keeps registrations
// for the next buffer of the same memory (idle).
//
// An op begins when lnetd takes it out of the ring, a little after Submit has returned; those of
// one TM in their order. Add of a buffer that peers are to reach waits for that (Flush), so peers
// reach the buffer when it returns; other ops are not waited for (transport 9.12).
//
// When lnetd ends, every TM of the domain fails with EPIPE; a new domain is needed then. One
// that does not answer a request to end something is given up after Config.Patience, as if it
// had ended. Other requests wait as long as their context, and ops until it goes on. All
// descriptors are closed by exec. A child made by fork alone shares them, keeps its
// parent's connection open, and must not use it.
//
// Goroutines: one for each connection, which reads it, and one for each request whose
// caller has given up, until it is undone, or that makes room for a registration. Close waits for
// all of them. Locks: tm.mu, store.mu and
// idle.mu are not held during a system call. exchange.mu and exchange.writing are held while pages
// are exchanged, which takes a few system calls and nothing of lnetd's; store.mu may be taken then.
// A received copy waits for exchange.writing, with tm.mu held. No mutex is held while lnetd is asked.
package remote
