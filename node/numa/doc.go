// Package numa reads how the machine is laid out: its NUMA nodes, how far they
// are from each other, which processors belong to them and which of them a
// network device is next to. The programs that compose a node call it once, and
// for each NI that is added; package selection takes the results.
//
// Every NUMA node with processors is one CPU partition (CPT), in the order of
// their numbers.
//
// It reads sysfs under a root that tests replace, and has no goroutine.
package numa
