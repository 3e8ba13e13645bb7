// Package verbs is the interface between a driver and RDMA hardware. It provides the functions of libibverbs
// and librdmacm that a driver needs, as Go interfaces whose arguments are values without pointers (o2iblnd
// 17.5, 19). It contains nothing of LNet's protocol. Package rdmacore implements it for the machine's devices,
// and package fabric in memory. Package verbstest is the test suite for both.
//
// A driver opens a Provider, and on it a Channel for connection events. Listen and Dial create IDs. The Device
// of an ID has memory and completion queues. CreateQP creates the queue pair of an ID on one of these queues,
// which many IDs may share. One goroutine of the driver waits at each Channel (Events), each Device (Events)
// and each CQ (Wait). Post runs in the caller's goroutine. There are no callbacks, and only these three methods
// block for long.
//
// Errors wrap a syscall.Errno, which is the same in both implementations, or one of the errors in errors.go.
// The package starts no goroutine.
package verbs
