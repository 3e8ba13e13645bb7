// Package socklnd is the LNet driver for TCP. It implements ksocklnd's protocol (docs/spec/socklnd.md)
// over the host's sockets, or over any other Network.
//
// The path of a message: Interface.Send selects a connection of the peer (peer.go), and the connection
// queues or writes it (writer.go). On the other side, the reader (reader.go) passes bytes to
// protocol.Receiver, makes the upcall, and reads the payload into the placement that it gets back.
// opener.go and acceptor.go make connections. reaper.go enforces timeouts and watches connections that
// are not being read. A caller that waits for an answer can take over the reader's role (poll.go); with
// busy polling, both poll before they sleep (pollers.go). The protocol itself is in package protocol.
//
// Goroutines. Per Driver: an accept loop for each listener, and one goroutine for each inbound
// connection that has not completed its HELLO. Per Interface: a reaper and a link watcher. Per peer,
// while needed: an opener. Per connection: a reader and, while needed, a drainer (the stream is full)
// and a flusher (the sender announced more messages). Close waits for all of them.
//
// Lock order: Driver.mu, the engine, the peer, conn.mu, then the others of lnd/peering. No lock is
// held across a system call, an upcall or a completion.
package socklnd
