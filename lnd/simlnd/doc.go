// Package simlnd is a network in memory. It has hosts with devices and addresses. The byte streams between
// hosts behave like TCP, and fail when a test requests it. socklnd runs over it unchanged (NewDriver), so whole
// nodes can be tested without sockets, with thousands of seeds per minute.
//
// Fabric.Host creates a host, or returns the existing host of that name. Faults apply between two Places. A
// Place is a host with all its devices, or a single device.
//
// Delays and random faults of a stream depend only on the fabric's seed, the stream's addresses, and the number
// of earlier attempts to connect between these addresses. Time is that of package time. In a testing/synctest
// bubble it is simulated; the Fabric must then be created inside the bubble.
//
// The package starts no goroutines except callbacks of timers. Each direction of a stream has at most one
// timer.
package simlnd
