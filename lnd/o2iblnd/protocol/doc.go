// Package protocol is ko2iblnd's protocol without I/O: codecs and state machines. It receives
// messages, events and times, and returns values and actions. It uses no device, no clock and no
// log. Package o2iblnd, the driver, calls it.
//
// Message and Reject are the codecs. Listener checks the requests of callers. Peering is what is
// known of a peer between attempts to connect. Spread counts the connections with a peer. Conn is
// one connection, with Credits, queues, and transfers in both roles; it appends its actions to a
// Batch. Choose selects the form in which a message is sent.
//
// The package starts no goroutines, and nothing is safe for concurrent use: the owner of a
// connection makes all its calls.
package protocol
