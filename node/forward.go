package node

import (
	"github.com/lnetd/lnetd/lnd"
)

// How far a forwarded message has come: it takes a router credit of the neighbour
// that brought it, then a buffer (lnet-core 7.4), and holds both until it has
// left.
const (
	passageNone   = iota
	passageCredit // it has the router credit
	passagePool   // and the pool's
)

// enterRouter begins the passage of an arrived message for somebody else.
func (m *message) enterRouter() {
	m.tx.Header = m.rx.Header
	h := &m.tx.Header
	m.from = m.peer
	m.reserved = h.Portal == 0 && !m.isAnswer()
	from, n := m.from, m.node
	if !from.router.take(m) {
		if from.gone.Load() { // at this moment
			n.freeStrays(from)
		}
		return
	}
	m.passage = passageCredit
	m.enterPool()
}

// freeStrays has the messages go on that wait for credits of a peer NI that is
// not in the map any more: nobody would find them there. The monitor sees to it.
func (n *Node) freeStrays(p *peerNI) {
	strays := p.router.withdraw(func(*message) bool { return true })
	for m := strays.pop(); m != nil; m = strays.pop() {
		m.passage = passageCredit
		if !n.strays.push(m) {
			m.dropForward(DropClosing)
		}
	}
	n.wakeMonitor()
}

// poolFor is the smallest pool whose buffers hold a payload.
func (r *router) poolFor(payload int) *pool {
	switch {
	case payload == 0:
		return &r.pools[tinyPool]
	case payload <= pageSize:
		return &r.pools[smallPool]
	}
	return &r.pools[largePool]
}

// enterPool goes on when m has a router credit.
func (m *message) enterPool() {
	n := m.node
	r := &n.router
	if !r.poolFor(int(m.tx.Header.PayloadLength)).credits.take(m) {
		if !r.forwards() { // it was switched off meanwhile, or is at this moment
			n.dropForwards(DropNotRouter, func(*message) bool { return true })
		}
		return
	}
	m.passage = passagePool
	m.takeIn()
}

// takeIn has the payload of m, which has both credits, put into a buffer.
func (m *message) takeIn() {
	length := int(m.tx.Header.PayloadLength)
	m.buffer = m.node.router.poolFor(length).get()
	m.tx.Payload = lnd.MemoryOf(m.buffer.bytes[:length])
	m.ni.iface.Receive(m.rx, lnd.Placement{Memory: m.tx.Payload, Done: m})
}

// forwardOn sends m on, whose payload is there unless err is not nil.
func (m *message) forwardOn(err error) {
	n := m.node
	if err != nil {
		m.failed(err)
		n.dropped(DropConnection, m.ni, m.from, &m.tx.Header)
		n.passed(m)
		return
	}
	m.succeeded(true)
	length := m.tx.Payload.Length
	m.countReceived(m.tx.Header.Type, length)
	n.stats.passed.add(length)
	p := n.plan(m, m.tx.Header.Dest)
	n.follow(m, &p)
}

// roomToWait tells whether a message that is forwarded may wait for discovery of
// its destination with what it holds. Else those that wait could take all buffers,
// and what they wait for come on a connection that stands still for lack of one.
func (n *Node) roomToWait(m *message) bool {
	half := func(c *credits) bool { return c.available.Load() >= max(c.limit.Load()/2, 1) }
	return half(&m.from.router) && half(&n.router.poolFor(m.tx.Payload.Length).credits)
}

// dropForward gives up m, whose payload has not been taken in.
func (m *message) dropForward(r DropReason) {
	rx, i := m.rx, m.ni
	i.drop(r, m.from, &rx.Header, int(rx.Header.PayloadLength))
	m.rx = nil
	m.node.passed(m)
	i.iface.Receive(rx, lnd.Placement{})
}

// passed ends m's passage: what it held goes to those who wait for it.
func (n *Node) passed(m *message) {
	var ready messageQueue
	if m.passage == passagePool {
		p := n.router.poolFor(int(m.tx.Header.PayloadLength))
		if m.buffer != nil {
			p.put(m.buffer)
		}
		if w := p.credits.give(); w != nil {
			w.passage = passagePool
			ready.push(w)
		}
	}
	if m.passage != passageNone {
		if w := m.from.router.give(); w != nil {
			w.passage = passageCredit
			ready.push(w)
		}
	}
	n.freeMessage(m)
	n.passOn(&ready)
}

// forwardAll has messages go on for which there are more credits now. Which they
// waited for, their passage tells.
func (n *Node) forwardAll(ready *messageQueue) {
	for m := ready.head; m != nil; m = m.next {
		m.passage++
	}
	n.passOn(ready)
}

// passOn takes the next step of messages that have got what they waited for.
func (n *Node) passOn(ready *messageQueue) {
	if ready.head == nil {
		return
	}
	for m := ready.head; m != nil; m = m.next {
		m.step = stepForward
	}
	n.run(ready)
}

// goThrough is that step.
func (m *message) goThrough() {
	if m.passage == passagePool {
		m.takeIn()
		return
	}
	m.enterPool()
}

// dropForwards gives up the messages that wait in the router and that which says
// yes to.
func (n *Node) dropForwards(r DropReason, which func(*message) bool) {
	if !n.router.ever.Load() {
		return
	}
	out := n.strays.withdraw(which)
	n.peers.each(func(p *peerNI) {
		waiting := p.router.withdraw(which)
		out.append(&waiting)
	})
	for k := range n.router.pools {
		waiting := n.router.pools[k].credits.withdraw(which)
		out.append(&waiting)
	}
	for m := out.pop(); m != nil; m = out.pop() {
		m.dropForward(r)
	}
}
