// Package rdma is a driver with RDMA semantics over a network in memory. It exercises what the driver
// contract requires of verbs without a device: large PUTs and REPLYs are placed after a request, GETs are
// answered into their sink without a REPLY (o2iblnd 10.2, 10.3), and memory is registered. It is for
// tests of drivers and of nodes.
//
// A device accesses no memory that is not registered with it, and none that was released. A driver or
// node that causes such an access gets an error report at once. Memory outside of regions is copied
// through the driver's own pool.
//
// Each open Interface has one goroutine, which makes its upcalls and completions and ends with Close. One
// lock guards a Fabric and everything on it.
package rdma
