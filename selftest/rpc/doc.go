// Package rpc is the client side of LNet selftest's RPCs (selftest 3). An RPC posts a buffer for the reply
// and, if it has a bulk, one for the bulk. It PUTs the request and then waits for up to three events, which
// may arrive in any order.
//
// Units of tests and consoles use this package. Client.Call blocks, Client.Start does not. Reusing a Call
// does not allocate. A node must have only one Client, because the Client assigns the match bits.
//
// The package starts no goroutines except those of timers. Events are handled in goroutines of the node's
// drivers or of callers. The end of an RPC is reported in the goroutine that handles its last event. No lock
// is held during a call of the node or of a Waiter.
package rpc
