// Package portals implements matching for one node: its 64 portals with match entries,
// memory descriptors (MDs), handles and events (lnet-core 2 to 4, and the parts of 5 and 6
// about MDs).
//
// Package node calls a Table from any goroutine. Match handles a request that has arrived,
// Begin starts a request from this node, and BeginReply and BeginAck handle responses.
// Finish ends an operation when its message is complete, and calls the MD's handler. The
// package determines the memory for each message, but copies no payload. It does no I/O,
// has no clock and starts no goroutine; if it needs one, it calls Config.Spawn.
//
// The lock order is portal.mu, md.mu, handleShard.mu. None is held while a handler runs,
// and handlers may call every method.
package portals
