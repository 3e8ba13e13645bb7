// Package protocol is the sans-I/O part of ko2iblnd's protocol: codecs and state
// machines. Messages, events and times go in, values and actions come out; it
// touches no device, no clock and no log. The driver, package o2iblnd, calls it.
//
// Message and Reject are the codecs. Listener judges who calls, Peering is what
// is known of a peer from one attempt to connect to the next, Spread how many
// connections it has. Conn is an established connection: Credits, queues, and
// transfers in both roles, whose actions it appends to a Batch. Choose says in
// which form a message travels.
//
// Nothing here starts a goroutine, and nothing is safe for concurrent use:
// whoever owns a connection calls its machine.
package protocol
