// Package mpi gives the processes of an MPI application LNet over MPI (docs/spec/mpilnd.md). Init is collective over
// MPI_COMM_WORLD. It returns a Process with a node (package node), whose peers are the other ranks and the nodes of
// proxies. The program must be built with the tag mpi, and started by the mpirun of Open MPI or MPICH.
//
// A Process has one goroutine, in which the driver makes all calls of MPI (package lnd/mpilnd/job).
package mpi
