// Package verbs is the interface between a driver and RDMA hardware. It has what a driver needs from
// libibverbs and librdmacm, as Go interfaces over flat values (o2iblnd 17.5, 19), and nothing of LNet's
// protocol. Package rdmacore implements it for the machine's devices, package fabric in memory. Package
// verbstest is the test suite for both.
//
// A driver opens a Provider, and a Channel for connection events. Listen and Dial create IDs. An ID's
// Device has memory and completion queues. CreateQP creates the ID's queue pair on one of these queues,
// which many IDs may share. One goroutine of the driver waits at each Channel (Events), each Device
// (Events) and each CQ (Wait). Post runs in the caller's goroutine. There are no callbacks, and only
// these three methods block for long.
//
// Errors wrap a syscall.Errno, which is the same in both implementations, or one of the sentinels in
// errors.go. The package starts no goroutine.
package verbs
