// Package transport sends messages and moves bulk data over LNet. It implements Motr's network model.
//
// OpenMessenger opens a Messenger on a Core. Send sends a message to an address, and Messages returns the
// messages that arrive:
//
//	m, err := transport.OpenMessenger(ctx, inproc.New(n), "10.0.0.1@tcp:12345:34:1")
//	...
//	for msg, err := range m.Messages(ctx) {
//		...
//		err = m.Send(ctx, msg.From, msg.Data)
//	}
//
// A Messenger uses the full model, which programs can also use directly. A transfer machine (TM) is an
// address with six queues of buffers. It sends and receives messages and moves bulk data. A buffer pool can
// fill its receive queue automatically. docs/transport.md is a guide. Types that only implementations of Core
// need are marked as such in their comments.
//
// A Domain runs on a Core: package inproc uses a node in this process, package mem only memory, and package
// remote a running lnetd. Domain.Open starts a TM at an address. Domain.Buffer allocates memory that TMs can
// move. TransferMachine.Add lends a buffer to the TM. The buffer's callback returns it to the program with
// the final event (BufferEvent.Final).
//
// Every error matches an errno with errors.Is; transport 3.16 lists them. If a call fails because its context
// ended, the error matches ECANCELED or ETIMEDOUT as well as the context's error.
//
// Each TM has a worker goroutine from Start until the TM has stopped or failed. The worker delivers events
// and enforces deadlines. Close waits until the worker has ended. The worker calls the callbacks one at a
// time; if delivery is synchronous, DeliverAll calls them instead. No lock is held during a callback. Locks
// are acquired in the order Pool.mu, Domain.mu, TransferMachine.mu. No lock is held during a call of the
// Core, except for CoreTM's Address, MatchBits and Pending.
package transport
