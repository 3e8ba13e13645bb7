// Package memory is what messages say of the memory that they move: vectors of
// segments, and regions that devices know. It owns no memory.
//
// Everybody above it uses it: programs describe a buffer by it, lnet/portals cuts
// descriptors out of it, drivers read and fill it. It copies nothing unless it is
// asked to, and starts no goroutine.
package memory
