// Package completion is what a Core within the process keeps the completions of a TM in,
// from the handlers that make them to the one goroutine that reaps them.
//
// It has two files: the ring, which never overflows since the engine reckons with
// credits (docs/spec/transport.md 7, 9.5), and the protocol by which the reaper sleeps
// and is woken (9.6). It starts no goroutine.
package completion
