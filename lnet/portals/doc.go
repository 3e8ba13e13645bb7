// Package portals is matching: a node's 64 portals with their entries, memory
// descriptors (MDs), handles and events (lnet-core 2 to 4, and what 5 and 6
// say of MDs).
//
// The engine of node calls it, from any goroutine: Match for a request that
// has arrived, Begin for one that is made, TakeReply and TakeAck for answers,
// and Finish when a message is through, which calls the MD's handler. It
// starts no goroutine (Config.Spawn lends it the owner's), has no clock and no
// I/O, and copies no payload; it says which memory a message belongs into.
//
// Locks are taken in this order: portal.mu, md.mu, handleShard.mu. None is held
// while a handler runs, and handlers may call every method.
package portals
