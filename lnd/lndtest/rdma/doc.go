// Package rdma is a driver with RDMA semantics over a network in memory, so that
// what the driver contract asks of verbs is exercised where there is no device:
// large PUTs and REPLYs are placed after a request, GETs are answered into their
// sink without a REPLY (o2iblnd 10.2, 10.3), and memory is registered. Tests of
// drivers and of nodes use it.
//
// A device touches no memory that is not registered with it, and none that was
// released: whoever makes it do so, driver or node, hears of it at once. Memory of
// no region goes through the driver's own pool.
//
// Each open Interface has one goroutine, which makes its upcalls and completions
// and ends with Close. One lock guards a Fabric and all that is on it.
package rdma
