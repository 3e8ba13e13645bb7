package node

import (
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/memory"
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
	m.tx.Header = m.arrival.rx.Header
	h := &m.tx.Header
	m.out.reserved = h.Portal == 0 && !m.isAnswer()
	from, n := m.arrival.from, m.node
	if !from.router.take(m) {
		if from.gone.Load() { // at this moment
			n.freeStrays(from)
		}
		return
	}
	m.passage.stage = passageCredit
	m.enterPool()
}

// freeStrays has the messages go on that wait for credits of a peer NI that is
// not in the map any more: nobody would find them there. The monitor sees to it.
func (n *Node) freeStrays(p *peerNI) {
	strays := p.router.withdraw(func(*message) bool { return true })
	for m := strays.pop(); m != nil; m = strays.pop() {
		m.passage.stage, m.step = passageCredit, stepForward
		if !n.strays.push(m) {
			m.drop(DropClosing)
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
	m.passage.stage = passagePool
	m.takeIn()
}

// takeIn has the payload of m, which has both credits, put into a buffer.
func (m *message) takeIn() {
	length := int(m.tx.Header.PayloadLength)
	m.passage.buffer = m.node.router.poolFor(length).get()
	m.tx.Payload = memory.Of(m.passage.buffer.bytes[:length])
	m.ni.iface.Receive(m.arrival.rx, lnd.Placement{Memory: m.tx.Payload, Done: m})
}

// forwardOn sends m on, whose payload is there unless err is not nil.
func (m *message) forwardOn(err error) {
	n := m.node
	if err != nil {
		m.failed(err)
		n.dropped(DropConnection, m.ni, m.arrival.from, &m.tx.Header)
		m.free()
		return
	}
	m.succeeded(true)
	length := m.tx.Payload.Length
	n.stats.passed.add(length) // first: see Counters
	m.countReceived(m.tx.Header.Type, length)
	p := n.plan(m, m.tx.Header.Dest)
	n.carryOut(m, &p)
}

// roomToWait tells whether a message that is forwarded may wait for discovery of
// its destination with what it holds. Else those that wait could take all buffers,
// and what they wait for come on a connection that stands still for lack of one.
func (n *Node) roomToWait(m *message) bool {
	half := func(c *credits) bool { return c.available.Load() >= max(c.limit.Load()/2, 1) }
	return half(&m.arrival.from.router) && half(&n.router.poolFor(m.tx.Payload.Length).credits)
}

// leaveRouter gives back what m holds in the router, and puts the messages that may
// take their next step there in ready.
func (m *message) leaveRouter(ready *messageQueue) {
	if m.passage.stage == passagePool {
		p := m.node.router.poolFor(int(m.tx.Header.PayloadLength))
		if m.passage.buffer != nil {
			p.put(m.passage.buffer)
		}
		if w := p.credits.give(); w != nil {
			w.passage.stage, w.step = passagePool, stepForward
			ready.push(w)
		}
	}
	if m.passage.stage != passageNone {
		if w := m.arrival.from.router.give(); w != nil {
			w.passage.stage, w.step = passageCredit, stepForward
			ready.push(w)
		}
	}
}

// forwardGranted has messages go on for which there are more credits now. Which they
// waited for, their passage tells.
func (n *Node) forwardGranted(ready *messageQueue) {
	for m := ready.head; m != nil; m = m.next {
		m.passage.stage++
		m.step = stepForward
	}
	n.run(ready)
}

// continuePassage takes the next step of m, which has got what it waited for.
func (m *message) continuePassage() {
	if m.passage.stage == passagePool {
		m.takeIn()
		return
	}
	m.enterPool()
}

// dropForwards gives up the messages that wait in the router and for which match is
// true.
func (n *Node) dropForwards(r DropReason, match func(*message) bool) {
	if !n.router.ever.Load() {
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
