package o2iblnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// counters are what an interface counts.
type counters struct {
	calls           atomic.Uint64 // attempts to connect
	connects        atomic.Uint64 // connections that we called for
	connectFailures atomic.Uint64 // rows of attempts that failed
	accepts         atomic.Uint64 // connections that peers called for
	refused         lnd.RefusalTally
	closes          atomic.Uint64 // connections that have ended, also those that never were
	peersDown       atomic.Uint64
	peersRestarted  atomic.Uint64
	protocolErrors  atomic.Uint64
	pendingTimeouts atomic.Uint64
	stalls          atomic.Uint64
	rebinds         atomic.Uint64 // times that a device came back
	immediates      atomic.Uint64 // messages sent without RDMA
	puts            atomic.Uint64 // PUTs and REPLYs sent by RDMA
	gets            atomic.Uint64 // GETs that asked for RDMA
	direct          atomic.Uint64 // memory that the device took as it is
	bounced         atomic.Uint64 // memory that went through the pool
	starved         atomic.Uint64 // times that the pool was empty
	messages        atomic.Uint64 // received, of all types
	bytesSent       atomic.Uint64
	bytesReceived   atomic.Uint64
}

// received counts what has come in a message buffer.
func (c *counters) received(data []byte) {
	c.messages.Add(1)
	c.bytesReceived.Add(uint64(len(data)))
}

// sending counts a message that is handed to a connection.
func (c *counters) sending(form protocol.Type, m *lnd.Tx) {
	switch form {
	case protocol.PutReq:
		c.puts.Add(1)
	case protocol.GetReq:
		c.gets.Add(1)
	default:
		c.immediates.Add(1)
	}
	c.bytesSent.Add(uint64(headSize + m.Payload.Length))
}

// Counters implements lnd.Interface.
func (i *Interface) Counters() []lnd.Counter {
	var peers, conns, pending, registered, lent uint64
	for _, p := range i.peersOf(lnet.NID{}) {
		p.mu.Lock()
		peers++
		conns += uint64(len(p.conns) + len(p.ready))
		pending += uint64(len(p.pending))
		p.mu.Unlock()
	}
	i.mu.RLock()
	if l := i.bound; l != nil {
		for _, a := range [...]*arena{l.dev.local, l.dev.remote} {
			all, used := a.size()
			registered += uint64(all)
			lent += uint64(used)
		}
	}
	i.mu.RUnlock()
	c := &i.counters
	refused := c.refused.Counts()
	return []lnd.Counter{
		{Name: "peers", Value: peers},
		{Name: "connections", Value: conns},
		{Name: "pending_messages", Value: pending},
		{Name: "arena_bytes", Value: registered},
		{Name: "arena_lent_bytes", Value: lent},
		{Name: "calls_total", Value: c.calls.Load()},
		{Name: "connects_total", Value: c.connects.Load()},
		{Name: "connect_failures_total", Value: c.connectFailures.Load()},
		{Name: "accepts_total", Value: c.accepts.Load()},
		{Name: "refused_total", Value: refused.Total()},
		{Name: "closes_total", Value: c.closes.Load()},
		{Name: "peers_down_total", Value: c.peersDown.Load()},
		{Name: "peers_restarted_total", Value: c.peersRestarted.Load()},
		{Name: "protocol_errors_total", Value: c.protocolErrors.Load()},
		{Name: "pending_timeouts_total", Value: c.pendingTimeouts.Load()},
		{Name: "stalls_total", Value: c.stalls.Load()},
		{Name: "rebinds_total", Value: c.rebinds.Load()},
		{Name: "immediates_total", Value: c.immediates.Load()},
		{Name: "rdma_puts_total", Value: c.puts.Load()},
		{Name: "rdma_gets_total", Value: c.gets.Load()},
		{Name: "direct_total", Value: c.direct.Load()},
		{Name: "bounced_total", Value: c.bounced.Load()},
		{Name: "starved_total", Value: c.starved.Load()},
		{Name: "received_messages_total", Value: c.messages.Load()},
		{Name: "sent_bytes_total", Value: c.bytesSent.Load()},
		{Name: "received_bytes_total", Value: c.bytesReceived.Load()},
	}
}
