// Package boundary is the interface between LNet's driver for MPI and an MPI library (mpilnd B.1, B.2). It has
// the few functions of MPI that the driver needs, as Go interfaces: point-to-point messages without blocking, one call
// that waits for them, three collective calls, and connections between jobs. It contains nothing of LNet's protocol. Package shim
// implements it for Open MPI and MPICH, and package fake in memory. Package boundarytest is the test suite for both.
//
// A process has one MPI. One goroutine of the driver makes all calls, and waits in Poll for completions and for work
// from other goroutines, which call Wake. There are no callbacks, and the package starts no goroutine.
package boundary
