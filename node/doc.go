// Package node is one node on the LNet: its interfaces (NIs), the messages it
// sends and receives, peers, credits, health, resends, fault rules, the ping
// responder and the pinger. Programs call it; below it are package portals, which
// matches, and drivers, known as lnd.Driver only.
//
// Goroutines: the monitor, from New to Close, which sends again, pings what is
// not well and ends what is overdue; one for each NI that is being closed; and
// hands, which run handlers that a driver's goroutine would not get rid of. Else
// handlers, ACKs and REPLYs run where a message ended: in a caller's goroutine,
// a driver's or the monitor.
//
// Lock order: configuration slot, infoMu, portals' locks, heldMessages.mu, then
// the leaves (all others). None is held across a driver call or a handler, but
// the slot. A message record belongs to whoever runs it: a caller, a queue
// (credits, resends, held, steps), portals while it delays it, or the driver until it
// calls Sent or Received. An arrived PUT's record becomes its ACK, a GET's its
// REPLY. An MD's memory is the node's until the event with Unlinked.
package node
