// Package node implements one node of an LNet network: its interfaces (NIs), peers,
// messages, credits, health, resends, routes, fault rules, pings and pushes.
//
// Start creates a node with its interfaces; New creates a node to which AddNI adds them.
// PutWait and GetWait send a PUT or a GET and wait for the result. OpenInbox receives the
// PUTs that arrive on a portal. Attach, Bind, Put and Get are the calls below these, with
// events that are passed to a portals.Handler. Discover and Ping query other nodes. Close
// shuts the node down.
//
// Methods that block return ErrInHandler if a handler calls them, or panic with it if they
// return no error.
//
// Package portals matches messages, package discovery keeps track of the NIDs of each
// peer, package selection chooses paths, and drivers (lnd.Driver) carry the messages.
package node

// Notes on the implementation.
//
// A node runs these goroutines: the monitor, which resends messages, sends the requests
// of discovery, pings NIs and peer NIs that lack health, and ends overdue requests; the
// discoverer, which runs the discovery machine; one per NI that is being closed; and
// those that run handlers which are slower than their events. All other handlers, ACKs
// and REPLYs run in the goroutine in which a message ended.
//
// The lock order is: configuration slot, router.mu, infoMu, the locks of package portals,
// peerShard.mu, heldMessages.mu, then the leaf locks, under which no other lock is
// acquired: credits.mu, pool.mu, runQueue.mu, resendQueue.mu, discoverer.mu,
// exchanges.mu, endings.mu, recovery.mu, flights.mu, lostNeighbours.mu, endedIncarnations.mu,
// absent.mu, captures.mu, pushTarget.mu, peerNI.reportedMu, ni.statusMu, ni.earlyMu, slowCalls.mu,
// EventQueue.mu, Inbox.mu, loopback.mu, fault.Rules.mu and those of the driver. Only the
// slot is held across a driver call or a handler.
//
// A message record has one owner at a time (see ending.go): a caller, a queue, package
// portals while the message is delayed, the discoverer while it is parked, or the driver.
