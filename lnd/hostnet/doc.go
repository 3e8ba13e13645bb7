// Package hostnet provides what drivers and the daemon need to know about the host's network: its devices with
// their addresses and links, its RDMA devices, and changes of them.
//
// Host is the interface. Kernel implements it with rtnetlink and the kernel's events about devices. Link
// watches the device of one NI and reports when its link goes up or down.
//
// Kernel.Watch starts up to two goroutines, which end before it returns. The package starts no others. It never
// polls.
package hostnet
