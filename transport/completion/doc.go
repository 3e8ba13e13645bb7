// Package completion holds the completions of a TM for Cores in this process. Event handlers push them, and
// one goroutine reaps them.
//
// The package has two parts: a ring buffer, which never overflows because the engine limits the ops it
// submits by credits (docs/spec/transport.md 7, 9.5), and the protocol by which the reaper sleeps and is
// woken (9.6). It starts no goroutines.
package completion
