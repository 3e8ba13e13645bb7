// Package memory describes the memory that messages move: vectors of segments, and regions
// that are registered with devices. It does not own the memory.
//
// Programs describe their buffers with it, package lnet/portals takes parts of them for
// memory descriptors, and drivers read and fill them. Apart from the Copy methods, it
// copies no data. It starts no goroutine.
package memory
