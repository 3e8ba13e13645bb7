// Package numa reads the layout of the machine: its NUMA nodes, the distances between
// them, their processors, and the node to which each network device is attached. Programs
// that create a node read it once and pass it in node.Config; the results are used by
// package selection.
//
// Every NUMA node with processors is one CPU partition (CPT). CPTs are numbered in the
// order of their NUMA nodes.
//
// The package reads sysfs below a root that tests replace. It starts no goroutine.
package numa
