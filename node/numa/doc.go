// Package numa reads the layout of the machine: its NUMA nodes, the distances between
// them, their processors, and the node to which each network device is attached. A program
// that creates a node reads the layout once and passes it in node.Config. Package
// selection uses it to choose NIs that are near to a message's memory.
//
// Every NUMA node with processors is one CPU partition (CPT). CPTs are numbered in the
// order of their NUMA nodes.
//
// The package reads sysfs below a root that tests replace. It starts no goroutine.
package numa
