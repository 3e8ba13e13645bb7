// Package protocol is ko2iblnd's protocol without I/O: codecs and state machines. Its functions receive
// messages, events and times, and return values and actions. They use no device, no clock and no log. Package
// o2iblnd, the driver, calls them.
//
// Message and Reject are the codecs. Listener checks the requests of callers. Peering is what a node remembers
// of a peer between connections. Spread counts the connections with a peer. Conn is the state machine of one
// connection, with Credits, queues, and transfers in which this node is the source or the sink; it appends its
// actions to a Batch. Choose selects the form in which a message is sent.
//
// The package starts no goroutines, and its types are not safe for concurrent use. The owner of a connection
// makes all calls for it.
package protocol
