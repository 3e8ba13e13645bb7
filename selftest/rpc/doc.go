// Package rpc is the client side of LNet selftest's RPCs (selftest 3): a reply
// buffer and perhaps a bulk buffer are posted, the request is PUT, and three
// events are waited for, in any order.
//
// Units of tests and consoles call it: Client.Call blocks, Client.Start does
// not, and a Call that is used again allocates nothing. There is one Client per
// node, since it gives out the match bits.
//
// It has no goroutines but those of timers. Events come in goroutines of the
// node's drivers or of callers; a Call that has ended is handed back in
// whichever ran last. No lock is held across a call of the node or a handler.
package rpc
