// Package udplnd is an example of a driver: LNet over UDP. docs/drivers.md explains it step by step.
//
// Two nodes have one link with each other. A message is a header and fragments of its payload. Each is a
// datagram with a number, which is sent again until it is acknowledged; then the next one follows. The
// receiver stores none of them: it acknowledges a header when the node has placed the message, so there is
// memory for each fragment that comes.
//
// All state belongs to tasks, which run one at a time (ni.do): in callers of the interface's methods, in
// the goroutine that reads the socket, and in that of a timer.
package udplnd
