// Package examples contains example programs in its folders. Its test runs them. ping, echo,
// client, survive and mpiping are complete programs of one file; test/mpi runs mpiping. udplnd is a package to copy: a
// driver. udpproxy runs it in another process, and cproxy is another program for that, in C. The programs in c use
// liblnetd; package client/c tests them.
package examples
