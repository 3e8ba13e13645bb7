// Package node is one node on the LNet: its interfaces (NIs), peers, messages,
// credits, health, resends, fault rules and pings. Programs call it; below it are
// package portals, which matches, and drivers, known as lnd.Driver only.
//
// Goroutines: the monitor, which sends again, pings what is not well and ends
// what is overdue; one per NI that is being closed; hands, which run handlers
// that are slower than their events. Else handlers, ACKs and REPLYs run where a
// message ended: in a caller's goroutine, a driver's or the monitor.
//
// Lock order: configuration slot, infoMu, portals' locks, heldMessages.mu, then
// the leaves. None but the slot is held across a driver call or a handler. A
// message record belongs to whoever runs it: a caller, a queue, portals while it
// delays it, or the driver until it calls Sent or Received. An arrived PUT's
// becomes its ACK, a GET's its REPLY. An MD's memory is the node's until the
// event with Unlinked.
package node
