// Package selftest makes a node of the LNet a node of LNet selftest: it answers
// a console's framework requests, serves test requests, and runs the units of
// tests whose client it is (selftest 1 to 6).
//
// Enable starts an Agent on a node; lnetd and tests call it, consoles use its
// Client. Handlers run in goroutines of the node's drivers and do all short
// work there. Goroutines of the Agent are: one that handles framework requests,
// strictly one at a time, and owns the session; one per start of a batch;
// short-lived ones that fill and check large bulks. Close waits for them.
// Locks: inbox.mu comes before inbound.mu; Agent.mu and memory.mu are alone. None
// is held across a call of the node or of a Call.
package selftest
