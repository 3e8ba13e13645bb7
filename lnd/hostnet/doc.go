// Package hostnet is what drivers and the daemon know about the host's network: its devices with their
// addresses and links, its RDMA devices, and changes to them.
//
// Host is the interface; Kernel implements it with rtnetlink and the kernel's events about devices. Link
// follows the device of one NI and reports when its link goes up or down.
//
// Kernel.Watch has two goroutines, which end before it returns. The package has no others, and reads
// nothing on a timer.
package hostnet
