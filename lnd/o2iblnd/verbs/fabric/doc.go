// Package fabric is RDMA in memory: hosts with devices, ports and addresses, reliable
// queue pairs between their processes, and a connection manager, which behave as
// hardware does (o2iblnd 3, 11, 17) and break as one says. It implements package verbs,
// for tests and simulations of a driver.
//
// Fabric.Host makes a host, Host.Open a process on it, which is a verbs.Provider. Where
// hardware leaves something open, the fabric takes what is hardest on a driver (Process).
//
// Random faults and delays of a connection come from the fabric's seed, its addresses and its
// number among those between them. Time is package time's: in a testing/synctest bubble,
// in which the Fabric must then have been made, it is simulated. A message without
// delay is placed in the goroutine that posts it.
//
// The package starts no goroutine but the callback of one timer, for which Close
// waits. One lock guards a Fabric and all that is on it.
package fabric
