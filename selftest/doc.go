// Package selftest makes a node take part in LNet selftest. It answers the framework requests of consoles,
// serves test requests, and runs the tests in which the node is a client (selftest 1 to 6).
//
// In a client test, a unit makes RPCs to one destination, one after the other. A test has several units for
// each destination if its concurrency is more than 1.
//
// Enable starts an Agent on a node. lnetd and tests call it; consoles use the Agent's Client.
//
// Event handlers run in goroutines of the node's drivers and do all short work there. An Agent has these
// goroutines: one that handles framework requests, one at a time, and owns the session; one for each start of
// a batch; and short-lived ones that fill and check large bulks. Close waits for them.
//
// Lock order: inbox.mu, then inbound.mu. Agent.mu and memory.mu are not held together with other locks. No
// lock is held during a call of the node or of an rpc.Call.
package selftest
