package rpc

import (
	"errors"
	"sync/atomic"

	"github.com/lnetd/lnetd/node"
	"github.com/lnetd/lnetd/selftest/message"
)

// Counters count a node's RPCs since it began (selftest 3). The zero value is
// ready, all of it safe for concurrent use. Clients count Errors, Sent and
// Expired, servers the rest.
type Counters struct {
	Errors   atomic.Uint32
	Sent     atomic.Uint32
	Received atomic.Uint32
	Dropped  atomic.Uint32
	Expired  atomic.Uint32
	BulkGet  atomic.Uint64
	BulkPut  atomic.Uint64
}

// Event counts an event's error, unless it is none or a cancellation.
func (c *Counters) Event(err error) {
	if err != nil && !errors.Is(err, node.ErrCanceled) {
		c.Errors.Add(1)
	}
}

// Snapshot is what they are now.
func (c *Counters) Snapshot() message.RPCCounters {
	return message.RPCCounters{
		Errors: c.Errors.Load(), Sent: c.Sent.Load(), Received: c.Received.Load(),
		Dropped: c.Dropped.Load(), Expired: c.Expired.Load(),
		BulkGet: c.BulkGet.Load(), BulkPut: c.BulkPut.Load(),
	}
}
