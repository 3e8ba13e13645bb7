// Package discovery finds out which NIDs belong to the same node. It keeps the peers,
// their nets and NIDs and their primary NIDs, the ping info that each peer sent and
// acknowledged, and the messages that wait for discovery of a peer. One attempt to
// discover a peer is called a round: it pings the peer, merges the NIDs in the reply, and
// pushes the local ping info to the peer.
//
// Machine is a state machine without I/O, clock, goroutines or locks. Package node calls
// it from one goroutine: a method for an event, or Step while HasWork returns true, and
// then Actions for the actions that the node must perform. A Step visits a bounded number of
// peers, merges a bounded number of NIDs and releases a bounded number of messages. Only
// deleting a peer removes all its NIDs at once.
//
// The node keeps the messages, which the Machine identifies by keys, and the credits,
// health and status of each NID. It publishes the View of each peer. From a View, any
// goroutine can find out whether a message must wait.
//
// The behaviour is specified in docs/spec/discovery.md.
package discovery
