// Package completion queues the completions of a TM for Cores in this process. Event handlers push
// completions, and one goroutine reaps them.
//
// The package has two parts. The first is a ring buffer, which never overflows because the engine limits the
// ops that it submits by credits (docs/spec/transport.md 7, 9.5). The second is the protocol by which the
// reaping goroutine sleeps and is woken (9.6). The package starts no goroutines.
package completion
