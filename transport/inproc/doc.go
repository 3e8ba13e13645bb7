// Package inproc is the Core of package transport over a node of this process: transfer
// machines on LNet itself (docs/spec/transport.md 6).
//
// Each op is one memory descriptor, and the registered buffer is its handler: it holds all
// there is to know of the op, so that nothing is allocated for one. Handlers run in
// goroutines of the node's; they turn events into completions (event.go), push those to
// the TM's completion.Queue, and never block.
//
// A TM claims its match bits on its portal (node.Node.Claim), which keeps all others out,
// also those who know nothing of transfer machines: other Cores on the node, inboxes, and
// programs that attach entries. LNet matches without looking at the NID that a message
// came to, and multi-rail peers may choose any: so portal and number of a TM are unique
// together over all NIDs of a node.
//
// Goroutines: none. Core.mu, domain.mu and buffer.mu are taken one at a time, and none is
// held across a call of the node, but for Claim and Unclaim, under Core.mu.
package inproc
