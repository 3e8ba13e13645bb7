// Package transport sends messages and moves bulk data over LNet, by Motr's network model.
//
// OpenMessenger opens a Messenger on a Core. Send sends a message to an address, and Messages returns those
// that arrive:
//
//	m, err := transport.OpenMessenger(ctx, inproc.New(n), "10.0.0.1@tcp:12345:34:1")
//	...
//	for msg, err := range m.Messages(ctx) {
//		...
//		err = m.Send(ctx, msg.From, msg.Data)
//	}
//
// Below it is the full model. A transfer machine (TM) is an address with six queues of buffers. It sends and
// receives messages and moves bulk data. Buffer pools can fill its receive queue automatically. See
// docs/transport.md for a guide. Types that only implementations of Core need are marked as such in their
// comments.
//
// A Domain runs on a Core: package inproc uses a node in this process, package mem only memory. Domain.Open
// starts a TM at an address. Domain.Buffer allocates memory that TMs can move. TransferMachine.Add lends a
// buffer to the TM, and a callback returns it with its final event (BufferEvent.Final).
//
// Errors match an errno with errors.Is; transport 3.16 lists them. If a context ends a call, the error
// matches ECANCELED or ETIMEDOUT as well as the context's error.
//
// Each TM has a worker goroutine from Start until it has stopped or failed. The worker delivers events and
// enforces deadlines. Close waits until it has ended. Callbacks run in the worker one at a time, or in
// DeliverAll if delivery is synchronous. No lock is held while they run. Locks are acquired in the order
// Pool.mu, Domain.mu, TransferMachine.mu, and no method of the Core is called with one held.
package transport
