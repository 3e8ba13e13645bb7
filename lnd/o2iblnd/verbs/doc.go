// Package verbs is the boundary between a driver and RDMA hardware: what a driver
// needs of libibverbs and librdmacm, as interfaces over flat values (o2iblnd 17.5, 19).
// It has no word of LNet's protocol. rdmacore implements it over the machine's
// devices, fabric in memory; verbstest is the suite that both run.
//
// A driver opens a Provider, and a Channel for connection events. Listen and Dial make
// IDs; an ID's Device has memory and completion queues; CreateQP gives the ID a queue
// pair on one of them. One goroutine of the driver's waits at each Channel (Events), each
// Device (Events) and each CQ (Wait), one CQ serving many IDs; Post works in the
// caller's. Nothing here calls back, and nothing but those three waits.
//
// Errors wrap a syscall.Errno, the same from both implementations, or one of the
// sentinels in errors.go. The package starts no goroutine.
package verbs
