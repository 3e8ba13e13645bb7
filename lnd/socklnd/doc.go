// Package socklnd is the LNet driver for TCP: it speaks ksocklnd's protocol
// (docs/spec/socklnd.md) over the host's sockets, or over any other Network.
//
// Follow a message: Interface.Send picks a connection of the peer (peer.go),
// the connection queues or writes it (writer.go); on the other side the
// reader (reader.go) feeds protocol.Receiver, calls up, and reads the payload
// into the place that comes back. opener.go and acceptor.go make connections,
// reaper.go times them out and watches those that nobody reads. Callers who wait for answers
// take the reader's role (poll.go); with busy polling both look before they sleep (watchers.go).
// The protocol itself is in package protocol.
//
// Goroutines: one accept loop per listener and one for each newcomer that has
// not finished its HELLO (Driver); per Interface a reaper and a link watcher;
// a reader per connection; while needed, an opener per peer, and per connection a drainer
// (its stream is full) and a flusher (who sent had more to send). Close waits for all.
//
// Locks, in this order: Driver.mu, Interface.mu, peer.mu, conn.mu. None is
// held across a system call, an upcall or a completion.
package socklnd
