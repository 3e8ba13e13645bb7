// Package udplnd is an example of a driver: LNet over UDP. docs/drivers.md explains it step by step.
//
// Two nodes have one link with each other. A message is sent as a header datagram, followed by datagrams with
// fragments of its payload. Each datagram has a number. The sender repeats a datagram until the receiver
// acknowledges it, and then sends the next one. The receiver needs no memory to keep fragments: it
// acknowledges a header only when the node has placed the message, so there is memory for each fragment that
// arrives.
//
// Only tasks access the state of the driver. A task is a function that is passed to ni.do. Tasks run one at a
// time: in callers of the interface's methods, in the goroutine that reads the socket, or in that of a timer.
package udplnd
