package rpc

import (
	"errors"
	"sync/atomic"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Counters count the RPCs of a node (selftest 3). The zero value is ready to use, and all fields are safe
// for concurrent use. Clients count Errors, Sent and Expired; servers count the rest.
type Counters struct {
	Errors   atomic.Uint32
	Sent     atomic.Uint32
	Received atomic.Uint32
	Dropped  atomic.Uint32
	Expired  atomic.Uint32
	BulkGet  atomic.Uint64
	BulkPut  atomic.Uint64
}

// Event counts err, the error of an event, unless it is nil or a cancellation.
func (c *Counters) Event(err error) {
	if err != nil && !errors.Is(err, node.ErrCanceled) {
		c.Errors.Add(1)
	}
}

// Snapshot returns the current values.
func (c *Counters) Snapshot() message.RPCCounters {
	return message.RPCCounters{
		Errors: c.Errors.Load(), Sent: c.Sent.Load(), Received: c.Received.Load(),
		Dropped: c.Dropped.Load(), Expired: c.Expired.Load(),
		BulkGet: c.BulkGet.Load(), BulkPut: c.BulkPut.Load(),
	}
}
