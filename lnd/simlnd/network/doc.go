// Package network is what simulated networks have in common: hosts and ports with addresses, links and
// partitions between them, connection requests that are delayed, time, and random numbers by seed. Package
// simlnd runs byte streams over it, lnd/o2iblnd/verbs/fabric RDMA.
//
// The lock of a Network is that of its user, a fabric, which holds it during all calls except Now, Count and
// the methods of Hold. The package starts no goroutine.
package network
