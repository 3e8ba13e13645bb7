package o2iblnd

import (
	"sync/atomic"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/o2iblnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// counters are the event counters of an interface that only this driver has.
type counters struct {
	calls         atomic.Uint64 // attempts to connect
	rebinds       atomic.Uint64 // times that the interface's device came back
	immediates    atomic.Uint64 // messages sent without RDMA
	puts          atomic.Uint64 // PUTs and REPLYs sent by RDMA
	gets          atomic.Uint64 // GETs that asked for RDMA
	direct        atomic.Uint64 // payloads in memory that the device could use directly
	bounced       atomic.Uint64 // payloads copied through the pool
	memoryWaits   atomic.Uint64 // times that a message had to wait because the pool was empty
	messages      atomic.Uint64 // received messages of all types
	bytesSent     atomic.Uint64 // bytes sent in messages and by RDMA
	bytesReceived atomic.Uint64 // bytes received in messages and by RDMA
}

// received counts a message that arrived in a receive buffer; data is its content.
func (c *counters) received(data []byte) {
	c.messages.Add(1)
	c.bytesReceived.Add(uint64(len(data)))
}

// sending counts a message that is submitted to a connection. form is the type of its first protocol message.
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
	conns := 0
	for _, p := range i.Of(lnet.NID{}) {
		p.Lock()
		conns += len(p.conns) + len(p.ready)
		p.Unlock()
	}
	var registered, lent uint64
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
	return append(i.List(conns, i.calls.Waiting()),
		lnd.Counter{Name: "arena_bytes", Value: registered, Help: "Bytes registered with the device for messages, and for payload that lies in no registered memory."},
		lnd.Counter{Name: "arena_lent_bytes", Value: lent, Help: "Bytes of these that are in use."},
		lnd.Counter{Name: "calls_total", Value: c.calls.Load(), Help: "Attempts to connect."},
		lnd.Counter{Name: "rebinds_total", Value: c.rebinds.Load(), Help: "Times that an interface used its device again after the device was removed."},
		lnd.Counter{Name: "immediates_total", Value: c.immediates.Load(), Help: "Messages sent together with their payload."},
		lnd.Counter{Name: "rdma_puts_total", Value: c.puts.Load(), Help: "PUTs and REPLYs whose payload was offered by RDMA."},
		lnd.Counter{Name: "rdma_gets_total", Value: c.gets.Load(), Help: "GETs whose reply was requested by RDMA."},
		lnd.Counter{Name: "direct_total", Value: c.direct.Load(), Help: "Payloads that lay in registered memory."},
		lnd.Counter{Name: "bounced_total", Value: c.bounced.Load(), Help: "Payloads that were copied to or from registered memory."},
		lnd.Counter{Name: "starved_total", Value: c.memoryWaits.Load(), Help: "Times that a message waited for registered memory."},
		lnd.Counter{Name: "received_messages_total", Value: c.messages.Load(), Help: "Protocol messages received, of all types."},
		lnd.Counter{Name: "sent_bytes_total", Value: c.bytesSent.Load(), Help: "Bytes sent, headers included."},
		lnd.Counter{Name: "received_bytes_total", Value: c.bytesReceived.Load(), Help: "Bytes received, headers included."},
	)
}
