// Package network is what simulated networks have in common: hosts and ports with addresses, links and
// partitions between them, delays of connection requests, time, and random numbers that depend on a seed.
// Package simlnd runs byte streams over it, and lnd/o2iblnd/verbs/fabric RDMA.
//
// A Network uses the lock of its user, a fabric. The fabric holds this lock during all calls except Now, Count
// and the methods of Hold. The package starts no goroutine.
package network
