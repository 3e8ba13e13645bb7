// Package limit limits what one source can make a process do. Meter and Rate limit how often something happens.
// Claims limits the peers that one address makes lnetd create. DescriptorReserve and CheckDescriptor keep file
// descriptors free for the control socket.
//
// The package reads no clock and starts no goroutine: times are arguments.
package limit
