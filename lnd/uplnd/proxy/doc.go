// Package proxy lets a driver serve an NI of an lnetd in another process (docs/spec/mpilnd.md A.6).
//
// Run connects to lnetd, opens an interface of a driver with the NI's NID, and passes messages between lnetd
// and the interface until one of them ends. Attach does the first part alone, for proxies that need a NID and PIDs before
// they have a driver. Any lnd.Driver works that does not move payload by RDMA: the package
// is the node above it. It is not needed to write a proxy; a program in another language uses the protocol of package
// uplnd/protocol.
//
// Payloads are in memory that the process shares with lnetd, and the driver reads and writes them there. When
// a message arrives, its payload is received at once if there is room and lnetd is not behind with this peer.
// Otherwise the driver waits until lnetd has a place for it.
//
// A Proxy has two goroutines: one reads the orders of lnetd and calls the driver, the other waits for the end of
// the connection. Upcalls of the driver put reports into the ring. No lock is held when the driver is called.
package proxy
