package node

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
)

// exchange is a ping or a push of discovery's, and the handler of its MD. The
// machine hears of its end once.
type exchange struct {
	node   *Node
	id     discovery.RequestID
	to     lnet.NID
	source lnet.NID // of a push
	over   lnet.Net // of a ping: the net to go by, if not 0
	size   int      // of a ping: the room for the reply
	push   bool

	md       lnet.Handle // guarded by exchanges.mu
	canceled bool        // too

	lost     atomic.Bool // the neighbour that the answer was to come from is
	answered bool        // the handler's
	err      error       // too
}

// exchanges are those under way.
type exchanges struct {
	mu      sync.Mutex // guards byID and waiting, and md and canceled of each exchange
	byID    map[discovery.RequestID]*exchange
	waiting []*exchange // for the monitor to send
}

func (x *exchanges) init() { x.byID = map[discovery.RequestID]*exchange{} }

// begin has the monitor send e.
func (x *exchanges) begin(n *Node, e *exchange) {
	x.mu.Lock()
	x.byID[e.id] = e
	x.waiting = append(x.waiting, e)
	x.mu.Unlock()
	n.wakeMonitor()
}

// cancel ends an exchange that nobody waits for.
func (x *exchanges) cancel(n *Node, id discovery.RequestID) {
	x.mu.Lock()
	e := x.byID[id]
	var md lnet.Handle
	if e != nil {
		e.canceled = true
		delete(x.byID, id)
		md = e.md
	}
	x.mu.Unlock()
	if md != (lnet.Handle{}) {
		_ = n.table.Unlink(md) // not found: it is through
	}
}

// end takes e off the books; false: it was canceled.
func (x *exchanges) end(e *exchange) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, e.id)
	return !e.canceled
}

// sentExchange is one that has an MD.
type sentExchange struct {
	*exchange
	handle lnet.Handle
}

// sent are those that have been sent, or are about to be.
func (x *exchanges) sent() (sent []sentExchange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.byID {
		if e.md != (lnet.Handle{}) {
			sent = append(sent, sentExchange{e, e.md})
		}
	}
	return sent
}

// sendAll sends what waits. The monitor calls it.
func (x *exchanges) sendAll(n *Node) {
	x.mu.Lock()
	waiting := x.waiting
	x.waiting = nil
	x.mu.Unlock()
	for _, e := range waiting {
		if err := e.send(); err != nil && x.end(e) {
			n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.Refused(now, e.id, err) })
		}
	}
}

// send binds the MD and starts the request.
func (e *exchange) send() error {
	n := e.node
	r := request{
		typ: lnet.MsgGet, portal: lnet.ReservedPortal, bits: lnet.PingMatchBits, wantReply: true,
		source: e.source, over: e.over,
	}
	var b []byte
	if e.push {
		r.typ = lnet.MsgPut
		b = n.pingBytes()
	} else {
		b = make([]byte, e.size)
	}
	h, err := n.table.Bind(portals.MD{
		Bytes: b, Threshold: 2, Unlink: true, Options: portals.Truncate | portals.TrackResponse, Handler: e,
	})
	if err != nil {
		return err
	}
	x := &n.discoverer.exchanges
	x.mu.Lock()
	e.md = h
	canceled := e.canceled
	x.mu.Unlock()
	if canceled {
		_ = n.table.Unlink(h) // nobody else has it
		return nil
	}
	if err := n.request(h, lnet.ProcessID{NID: e.to, PID: lnet.PIDLustre}, &r); err != nil {
		x.mu.Lock()
		e.canceled = true // the UNLINK event is nobody's
		x.mu.Unlock()
		_ = n.table.Unlink(h)
		n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.Refused(now, e.id, err) })
	}
	return nil
}

// HandleEvent hears of what becomes of e. What it ends with is told with the
// last event, but for an answer.
func (e *exchange) HandleEvent(v *portals.Event) {
	n := e.node
	switch {
	case v.Err != nil:
		if e.err == nil {
			e.err = v.Err
		}
		if !v.Unlinked {
			_ = n.table.Unlink(v.MD) // not found: it is through
		}
	case v.Type == portals.EventAck || v.Type == portals.EventReply:
		e.answered = true
		e.tell(v)
	}
	if v.Unlinked && !e.answered {
		err := e.err
		switch {
		case e.lost.Load():
			err = discovery.ErrLost
		case err == nil, errors.Is(err, ErrTimedOut):
			err = discovery.ErrTimedOut
		}
		e.post(func(m *discovery.Machine, now time.Duration) { m.Failed(now, e.id, err) })
	}
}

// tell hands an answer over.
func (e *exchange) tell(v *portals.Event) {
	if e.push {
		e.post(func(m *discovery.Machine, now time.Duration) { m.PushAcked(now, e.id) })
		return
	}
	r := discovery.Reply{To: v.Target.NID, From: v.Source.NID}
	r.Content = e.node.readInfo(v.Bytes[:min(v.Length, len(v.Bytes))], v.Length >= e.size, r.From)
	if r.Content.Err == nil && !e.node.admitInfo(v.Sender, &r.Content.Info) {
		r.Content.Err = discovery.ErrFull
	}
	e.post(func(m *discovery.Machine, now time.Duration) { m.PingReply(now, e.id, r) })
}

// readInfo reads what another node says of itself. Our NIDs are none of its.
func (n *Node) readInfo(b []byte, cut bool, from lnet.NID) discovery.Content {
	c := discovery.Read(b, cut, n.parameters.Load().InterfacesMax)
	if t := n.topology.Load(); t.find(from) == nil {
		c.Info.NIs = slices.DeleteFunc(c.Info.NIs, func(i lnet.PingNI) bool { return t.find(i.NID) != nil })
	}
	return c
}

// post tells the machine, unless nobody waits.
func (e *exchange) post(f func(m *discovery.Machine, now time.Duration)) {
	d := &e.node.discoverer
	if d.exchanges.end(e) {
		d.post(f)
	}
}
