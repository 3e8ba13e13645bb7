// Package mpi is for tests of programs over MPI: examples/mpiping under Open MPI and MPICH. The tests need the build tag
// mpi; .ci/run mpi runs them.
package mpi
