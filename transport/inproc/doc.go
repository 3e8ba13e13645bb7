// Package inproc is the Core of package transport that uses a node in this process. Its transfer machines use
// LNet directly (docs/spec/transport.md 6).
//
// Each op uses one memory descriptor. The registered buffer is the handler of the descriptor's events and
// contains the state of the op, so that an op allocates nothing. Handlers run in goroutines of the node. They
// convert events to completions (event.go), push them to the TM's completion.Queue, and never block.
//
// A TM claims its match bits on its portal (node.Node.Claim). This excludes all other users of the node:
// other Cores, inboxes, and programs that attach entries. LNet ignores the destination NID when it matches
// messages, and multi-rail peers may choose any NID. So the pair of portal and number is unique across all
// NIDs of a node.
//
// The package starts no goroutines. At most one of Core.mu, domain.mu and buffer.mu is held at a time. No
// lock is held while the node is called, except Core.mu for Claim and Unclaim.
package inproc
