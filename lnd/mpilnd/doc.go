// Package mpilnd is the LNet driver over MPI (docs/spec/mpilnd.md). It is used in client processes of an application and
// in proxies.
//
// A Driver serves one process of a job. Driver.Run is its only goroutine: it makes all calls of MPI, all upcalls and all
// completions. Methods that other goroutines call, such as Send, add a task to a list that Run works off, and never
// wait for it. So nothing that Run uses needs a lock, and no lock is held during upcalls.
//
// A peer is another process. It has a link if both have exchanged their versions. MPI does not report
// dead processes; peers that do not answer a PROBE lose their link (mpilnd B.8). Requests of MPI live longer than links and
// interfaces: a send cannot be cancelled. Memory of the node is therefore never sent, but copied; and it is received
// into only by receives that are cancelled when the link ends.
package mpilnd
