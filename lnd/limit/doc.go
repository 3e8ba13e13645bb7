// Package limit bounds what one source can make a process do: Meter and Rate limit how often
// something happens, Claims limits the peers that one address makes lnetd create, and
// DescriptorReserve keeps file descriptors free for the control socket.
//
// Nothing here reads a clock or runs a goroutine: times are arguments.
package limit
