// Package memory describes the memory that messages are sent from and received into: vectors
// of segments, and regions that are registered with devices. It does not own the memory.
//
// Programs describe their buffers with it, package lnet/portals selects parts of these for
// memory descriptors, and drivers read and fill them. Only the Copy methods copy data. The
// package starts no goroutines.
package memory
