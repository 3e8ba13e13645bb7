// Package socklnd is the LNet driver for TCP. It implements ksocklnd's protocol (docs/spec/socklnd.md) over
// the host's sockets, or over any other Network.
//
// The path of a message: Interface.Send selects a connection of the peer (peer.go), and the connection queues
// or writes the message (writer.go). On the receiving node, the reader (reader.go) passes bytes to
// protocol.Receiver, makes the upcall Arrived, and reads the payload into the placement that the node
// returns. opener.go and acceptor.go make connections. reaper.go enforces timeouts, and detects the end of
// connections that are not being read. A caller that waits for an answer can read the connection itself
// instead of the reader (poll.go). With busy polling, both the caller and the reader poll before they sleep
// (pollers.go). The protocol itself is in package protocol.
//
// Goroutines. Per Driver: an accept loop for each listener, and one goroutine for each inbound connection
// that has not completed its HELLO. Per Interface: a reaper and a link watcher. Per peer, while connections
// are being opened: an opener. Per connection: a reader, a drainer while the stream is full, and a flusher
// after a sender has announced more messages. Close waits for all of them.
//
// Lock order: Driver.mu, the engine, the peer, conn.mu, then the other locks of lnd/peering. No lock is held
// during a system call that may block, an upcall or a completion.
package socklnd
