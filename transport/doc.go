// Package transport is Motr's network model over LNet: transfer machines (TMs) with six
// queues of buffers, end points, pools and automatic provisioning, messages and bulk. Its
// guide is docs/transport.md; types that only Cores need say so.
//
// A Domain stands on a Core: a node in this process (package inproc), or memory (package
// mem). Domain.Open starts a TM at an address, Domain.Buffer makes memory to move;
// TransferMachine.Add lends it, and a callback tells its end, once (BufferEvent.Final).
// Errors have the errno of transport 3.16 for errors.Is; ctx's ECANCELED or ETIMEDOUT, too.
//
// Goroutines: each TM has a worker from Start until it is stopped or has failed, which
// delivers events and makes time-outs; Close waits for it. Callbacks run in it, one at a
// time, or in DeliverAll with synchronous delivery; no lock is held then. Lock order:
// Pool.mu, Domain.mu, TransferMachine.mu; none is held across a call of the Core.
package transport
