package o2iblnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnd/peering"
	"github.com/lnetd/lnetd/lnet"
)

// counters are an interface's event counters.
type counters struct {
	calls           atomic.Uint64        // attempts to connect
	connects        atomic.Uint64        // connections opened by this node
	callFailures    peering.CallFailures // series of attempts that failed
	accepts         atomic.Uint64        // connections opened by peers
	refused         peering.Refusals
	closes          atomic.Uint64 // connections that have ended, including failed attempts
	peersDown       atomic.Uint64
	peersRestarted  atomic.Uint64
	protocolErrors  atomic.Uint64
	pendingTimeouts atomic.Uint64
	stalls          atomic.Uint64
	rebinds         atomic.Uint64 // times that a device came back
	immediates      atomic.Uint64 // messages sent without RDMA
	puts            atomic.Uint64 // PUTs and REPLYs sent by RDMA
	gets            atomic.Uint64 // GETs that asked for RDMA
	direct          atomic.Uint64 // payloads in memory that the device could use directly
	bounced         atomic.Uint64 // payloads copied through the pool
	starved         atomic.Uint64 // times that the pool was empty
	messages        atomic.Uint64 // received messages of all types
	bytesSent       atomic.Uint64 // in messages and by RDMA
	bytesReceived   atomic.Uint64
}

// received counts a message received in a message buffer.
func (c *counters) received(data []byte) {
	c.messages.Add(1)
	c.bytesReceived.Add(uint64(len(data)))
}

// sending counts a message submitted to a connection.
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

// moved counts the payload that RDMA has transferred for an arrived message.
func (c *counters) moved(form protocol.Type, p *lnd.Placement) {
	switch form {
	case protocol.PutReq:
		c.bytesReceived.Add(uint64(p.Memory.Length))
	case protocol.GetReq:
		c.bytesSent.Add(uint64(p.Reply.Length))
	default: // the payload was in the message
	}
}

// Counters implements lnd.Interface.
func (i *Interface) Counters() []lnd.Counter {
	var peers, conns, pending, registered, lent uint64
	for _, p := range i.peersOf(lnet.NID{}) {
		p.mu.Lock()
		peers++
		conns += uint64(len(p.conns) + len(p.ready))
		pending += uint64(p.waiting.Len())
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
	refused, failed := c.refused.Counts(), c.callFailures.Counts()
	return []lnd.Counter{
		{Name: "peers", Value: peers, Help: "Peers that the driver has in its table."},
		{Name: "connections", Value: conns, Help: "Connections that are up."},
		{Name: "pending_messages", Value: pending, Help: "Messages that wait for a connection."},
		{Name: "waiting_calls", Value: uint64(i.calls.Waiting()), Help: "Peers that wait for their turn to be called."},
		{Name: "arena_bytes", Value: registered, Help: "Bytes registered with the device for messages, and for payload that lies in no registered memory."},
		{Name: "arena_lent_bytes", Value: lent, Help: "Bytes of these that are in use."},
		{Name: "calls_total", Value: c.calls.Load(), Help: "Attempts to connect."},
		{Name: "connects_total", Value: c.connects.Load(), Help: "Connections that were opened from here."},
		{Name: "connect_failures_total", Value: failed.Total(), Help: "Times that a peer could not be called."},
		{Name: "accepts_total", Value: c.accepts.Load(), Help: "Connections that peers opened."},
		{Name: "refused_total", Value: refused.Total(), Help: "Callers that were turned away."},
		{Name: "closes_total", Value: c.closes.Load(), Help: "Connections that were closed."},
		{Name: "peers_down_total", Value: c.peersDown.Load(), Help: "Times that a peer was lost."},
		{Name: "peers_restarted_total", Value: c.peersRestarted.Load(), Help: "Times that a peer began a new life."},
		{Name: "protocol_errors_total", Value: c.protocolErrors.Load(), Help: "Connections ended by something that makes no sense."},
		{Name: "pending_timeouts_total", Value: c.pendingTimeouts.Load(), Help: "Messages that waited for a connection in vain."},
		{Name: "stalls_total", Value: c.stalls.Load(), Help: "Times that a peer stopped answering."},
		{Name: "rebinds_total", Value: c.rebinds.Load(), Help: "Times that a device came back."},
		{Name: "immediates_total", Value: c.immediates.Load(), Help: "Messages sent whole."},
		{Name: "rdma_puts_total", Value: c.puts.Load(), Help: "PUTs and REPLYs whose payload was offered by RDMA."},
		{Name: "rdma_gets_total", Value: c.gets.Load(), Help: "GETs whose answer was asked for by RDMA."},
		{Name: "direct_total", Value: c.direct.Load(), Help: "Payloads that lay in registered memory."},
		{Name: "bounced_total", Value: c.bounced.Load(), Help: "Payloads that were copied to or from registered memory."},
		{Name: "starved_total", Value: c.starved.Load(), Help: "Times that a message waited for registered memory."},
		{Name: "received_messages_total", Value: c.messages.Load(), Help: "Messages of the protocol that came, of all types."},
		{Name: "sent_bytes_total", Value: c.bytesSent.Load(), Help: "Bytes sent, headers included."},
		{Name: "received_bytes_total", Value: c.bytesReceived.Load(), Help: "Bytes received, headers included."},
	}
}
