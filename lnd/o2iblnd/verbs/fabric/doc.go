// Package fabric is RDMA in memory. It has hosts with devices, ports and addresses, reliable queue pairs
// between processes on the hosts, and a CM (connection manager). They behave like hardware (o2iblnd 3, 11, 17)
// and fail when a test requests it. The package implements package verbs, for tests and simulations of a
// driver.
//
// Fabric.Host creates a host. Host.Open starts a process on it, which is a verbs.Provider. Where hardware may
// behave in several ways, the fabric behaves in the way that is hardest for a driver (see Process).
//
// Random faults and delays of a connection depend only on the fabric's seed, the connection's addresses, and
// the number of earlier attempts between these addresses. Time is that of package time. In a testing/synctest
// bubble it is simulated; the Fabric must then be created inside the bubble. A message without delay is
// delivered in the goroutine that posts it.
//
// The package starts no goroutine except the callback of one timer, which Close waits for. One lock guards a
// Fabric and everything on it.
package fabric
