package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/memory"
)

// Stages of a message that is forwarded. It first acquires a router credit of the
// neighbour that sent it, then a credit of a pool of buffers (lnet-core 7.4), and holds
// both until it has been sent on.
const (
	passageNone   = iota
	passageCredit // holds the router credit
	passagePool   // also holds the pool's credit
)

// startForward starts to forward a message that has arrived for another node.
func (m *message) startForward() {
	m.tx.Header = m.arrival.rx.Header
	h := &m.tx.Header
	m.out.reserved = h.Portal == 0 && !m.isAnswer()
	from, n := m.arrival.from, m.node
	if !from.router.acquire(m) {
		if from.gone.Load() { // from was removed from the map after m was queued
			n.resumeStrays(from)
		}
		return
	}
	m.passage.stage = passageCredit
	m.acquireBuffer()
}

// resumeStrays resumes the messages that wait for router credits of p after p was removed
// from the map of peers. Code that searches the map, such as dropForwards, would not find
// them there. They continue in the monitor as if they had received the credit.
func (n *Node) resumeStrays(p *peerNI) {
	strays := p.router.withdraw(func(*message) bool { return true })
	for m := strays.pop(); m != nil; m = strays.pop() {
		m.passage.stage, m.step = passageCredit, stepForward
		if !n.strays.push(m) {
			m.drop(DropClosing)
		}
	}
	n.wakeMonitor()
}

// poolFor returns the pool with the smallest buffers that hold the payload.
func (r *router) poolFor(payload int) *pool {
	switch {
	case payload == 0:
		return &r.pools[tinyPool]
	case payload <= pageSize:
		return &r.pools[smallPool]
	}
	return &r.pools[largePool]
}

// acquireBuffer acquires a buffer for m, which has a router credit.
func (m *message) acquireBuffer() {
	n := m.node
	r := &n.router
	if !r.poolFor(int(m.tx.Header.PayloadLength)).credits.acquire(m) {
		if !r.forwards() { // forwarding was disabled after m was queued
			n.dropForwards(DropNotRouter, func(*message) bool { return true })
		}
		return
	}
	m.passage.stage = passagePool
	m.receivePayload()
}

// receivePayload takes a buffer for m, which holds both credits, and makes the driver
// receive the payload into it.
func (m *message) receivePayload() {
	length := int(m.tx.Header.PayloadLength)
	m.passage.buffer = m.node.router.poolFor(length).get()
	m.tx.Payload = memory.Of(m.passage.buffer.bytes[:length])
	m.ni.iface.Receive(m.arrival.rx, lnd.Placement{Memory: m.tx.Payload, Done: m})
}

// forwardReceived forwards m, whose payload was received. If err is not nil, the payload was not
// received, and forwardReceived drops m.
func (m *message) forwardReceived(err error) {
	n := m.node
	if err != nil {
		m.failed(err)
		n.dropped(DropConnection, m.ni, m.arrival.from, &m.tx.Header)
		m.free()
		return
	}
	m.succeeded(true)
	length := m.tx.Payload.Length
	n.stats.passed.add(length) // before countReceived: see Counters
	m.countReceived(m.tx.Header.Type, length)
	p := n.plan(m, m.tx.Header.Dest)
	n.execute(m, &p)
}

// mayWaitForDiscovery reports whether m, which is being forwarded and holds credits, may
// wait for discovery of its destination. It returns false if less than half of the credits
// are free. If more messages waited, they could use up all buffers. The answer that
// discovery waits for might then be on a connection that is blocked because no buffer is
// free.
func (n *Node) mayWaitForDiscovery(m *message) bool {
	half := func(c *credits) bool { return c.available.Load() >= int64(max(c.limit.Load()/2, 1)) }
	return half(&m.arrival.from.router) && half(&n.router.poolFor(m.tx.Payload.Length).credits)
}

// releaseRouter releases the router credit of m, its buffer and the pool's credit.
// Messages that receive these credits are appended to ready; the caller must run them.
func (m *message) releaseRouter(ready *messageQueue) {
	if m.passage.stage == passagePool {
		p := m.node.router.poolFor(int(m.tx.Header.PayloadLength))
		if m.passage.buffer != nil {
			p.put(m.passage.buffer)
		}
		if w := p.credits.release(); w != nil {
			w.passage.stage, w.step = passagePool, stepForward
			ready.push(w)
		}
	}
	if m.passage.stage != passageNone {
		if w := m.arrival.from.router.release(); w != nil {
			w.passage.stage, w.step = passageCredit, stepForward
			ready.push(w)
		}
	}
}

// forwardGranted resumes messages that received a credit because the number of credits was
// increased. The stage of each message shows which credit it waited for.
func (n *Node) forwardGranted(ready *messageQueue) {
	for m := ready.head; m != nil; m = m.next {
		m.passage.stage++
		m.step = stepForward
	}
	n.run(ready)
}

// resumeForward resumes m, which has received the credit that it waited for.
func (m *message) resumeForward() {
	if m.passage.stage == passagePool {
		m.receivePayload()
		return
	}
	m.acquireBuffer()
}

// dropForwards discards the messages that wait in the router and for which match returns
// true.
func (n *Node) dropForwards(r DropReason, match func(*message) bool) {
	if !n.router.everEnabled.Load() {
		return
	}
	out := n.strays.withdraw(match)
	n.peers.each(func(p *peerNI) {
		waiting := p.router.withdraw(match)
		out.append(&waiting)
	})
	for k := range n.router.pools {
		waiting := n.router.pools[k].credits.withdraw(match)
		out.append(&waiting)
	}
	for m := out.pop(); m != nil; m = out.pop() {
		m.drop(r)
	}
}
