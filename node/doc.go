// Package node is one node on the LNet: its interfaces (NIs), peers, messages,
// credits, health, resends, routes, fault rules, pings and pushes. Programs call
// it; below it are packages portals, which matches, discovery, which knows who
// has which NIDs, selection, which chooses paths, and drivers, as lnd.Driver.
//
// Goroutines: the monitor, which sends again, sends what discovery wants, pings
// what is not well and ends what is overdue; the discoverer, which runs
// discovery's machine; one per NI that is being closed; those that run handlers
// slower than their events. Else handlers, ACKs and REPLYs run where a message
// ended. Lock order: configuration slot, router.mu, infoMu, portals' locks,
// peerShard.mu, heldMessages.mu, then the leaves, under which no other is taken:
// credits.mu, pool.mu, runQueue.mu, resendQueue.mu, discoverer.mu, exchanges.mu,
// endings.mu, recovery.mu, flights.mu, lostHops.mu, overLives.mu, absent.mu,
// pushTarget.mu, peerNI.toldMu, ni.statusMu, ni.earlyMu, slowHandlers.mu,
// EventQueue.mu, Inbox.mu, loopback.mu, fault.Rules.mu and the driver's. None but the
// slot is held across a driver call or a handler. A message record belongs to whoever
// runs it (ending.go): a caller, a queue, portals while it delays it, the discoverer
// while it is parked, or the driver.
package node
