// Package shim implements package boundary for MPI libraries (mpilnd B.1). A shim in C (shim.c, shim.h), compiled for
// one MPI library by the script build, is a shared object: lnetd-openmpi.so or lnetd-mpich.so. Its functions take only
// integers and pointers, so that one Go program can load either. The package needs the build tag mpi; Open then loads
// the shim for the mpirun that has started the process. Without the tag, Open returns boundary.ErrNotBuilt.
//
// The package keeps Go memory pinned from the start of a request until Poll has reported its completion. If requests
// are left when the process gives up MPI, their memory stays pinned.
//
// Poll waits in C: it tests the requests, and sleeps between tests until Wake, at most 2 ms, because MPI has no way to
// wait for messages and for something else without using a processor. Shortly after a request or a completion it sleeps
// for 0.1 ms, and for Options.Spin not at all. The package starts no goroutine.
package shim
