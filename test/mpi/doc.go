// Package mpi is for tests of programs over MPI: examples/mpiping and cmd/lnet-mpi-proxy under Open MPI and MPICH, with
// lnetd behind the proxies. The tests need the build tag mpi; .ci/run mpi runs them.
package mpi
