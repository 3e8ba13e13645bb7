// Package discovery knows which NIDs belong to one node: peers, their nets and
// NIDs, primary NIDs, what each peer was told and has told, and which messages
// wait for that. It is a machine without I/O, clock, goroutine or lock: events
// and times go in by calls of Machine's methods, actions come out.
//
// Package node calls it, from one goroutine: an event, or Step while Ready, then
// Actions. A Step looks at a bounded number of peers, merges a bounded number of
// NIDs and releases a bounded number of messages; only a peer that is deleted loses
// all its NIDs at once. The node keeps what belongs to a NID (credits, health, status), and
// the messages, known here by keys; it publishes the View of each peer, which
// tells any goroutine whether a message must wait.
//
// No goroutines exist here. Most of it is docs/spec/discovery.md.
package discovery
