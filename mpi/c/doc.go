// Command c is the C library liblnet_mpi (lnet_mpi.h), by which the ranks of an MPI application in C, C++ or Fortran use
// LNet over MPI. Each rank has a node (package mpi), and hosts clients over it, as lnetd does (package clients): the
// application, through liblnetd. The script build compiles the library.
//
// Goroutines: those of the packages it joins, and one that serves clients.
package main

// main is required for a library of C, and is not called.
func main() {}
