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

// exchange is a ping or a push of the discovery machine, and the handler of its MD. It
// reports its result to the machine once, unless the machine has canceled it.
type exchange struct {
	node   *Node
	id     discovery.RequestID
	to     lnet.NID
	source lnet.NID // for a push
	net    lnet.Net // for a ping: the net to use, if not 0
	size   int      // for a ping: size of the reply buffer
	push   bool

	md       lnet.Handle // guarded by exchanges.mu
	canceled bool        // guarded by exchanges.mu

	lost     atomic.Bool // the neighbour from which the answer was expected is unreachable
	answered bool        // accessed by the handler only
	err      error       // accessed by the handler only
}

// exchanges holds the exchanges that have not ended.
type exchanges struct {
	mu      sync.Mutex // guards byID and waiting, and md and canceled of each exchange
	byID    map[discovery.RequestID]*exchange
	waiting []*exchange // to be sent by the monitor
}

func (x *exchanges) init() { x.byID = map[discovery.RequestID]*exchange{} }

// begin passes e to the monitor, which sends it.
func (x *exchanges) begin(n *Node, e *exchange) {
	x.mu.Lock()
	x.byID[e.id] = e
	x.waiting = append(x.waiting, e)
	x.mu.Unlock()
	n.wakeMonitor()
}

// cancel ends the exchange with this ID, whose result is no longer needed, and unlinks its
// MD.
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
		_ = n.table.Unlink(md) // not found: the MD has ended already
	}
}

// end removes e when its result is known. It returns false if e was canceled, so that the
// result must not be reported.
func (x *exchanges) end(e *exchange) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, e.id)
	return !e.canceled
}

// sentExchange is an exchange that has an MD.
type sentExchange struct {
	*exchange
	handle lnet.Handle
}

// sent returns the exchanges that were sent or are about to be sent.
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

// sendAll sends the exchanges that were passed to the monitor. The monitor calls it.
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

// send binds the MD of e and sends the PUT or GET. If it returns an error, the caller must
// report it to the machine.
func (e *exchange) send() error {
	n := e.node
	r := request{
		typ: lnet.MsgGet, portal: lnet.ReservedPortal, bits: lnet.PingMatchBits, wantReply: true,
		source: e.source, net: e.net,
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
		_ = n.table.Unlink(h) // only this goroutine has the handle
		return nil
	}
	if err := n.request(h, lnet.ProcessID{NID: e.to, PID: lnet.PIDLustre}, &r); err != nil {
		x.mu.Lock()
		e.canceled = true // the UNLINK event must not be reported
		x.mu.Unlock()
		_ = n.table.Unlink(h)
		n.discoverer.post(func(m *discovery.Machine, now time.Duration) { m.Refused(now, e.id, err) })
	}
	return nil
}

// HandleEvent implements portals.Handler. It reports an answer to the machine as soon as
// it arrives, but a failure only with the last event of the MD.
func (e *exchange) HandleEvent(v *portals.Event) {
	n := e.node
	switch {
	case v.Err != nil:
		if e.err == nil {
			e.err = v.Err
		}
		if !v.Unlinked {
			_ = n.table.Unlink(v.MD) // not found: the MD has ended already
		}
	case v.Type == portals.EventAck || v.Type == portals.EventReply:
		e.answered = true
		e.reportAnswer(v)
	}
	if v.Unlinked && !e.answered {
		err := e.err
		switch {
		case e.lost.Load():
			err = discovery.ErrLost
		case err == nil, errors.Is(err, ErrTimedOut):
			err = discovery.ErrTimedOut
		}
		e.reportResult(func(m *discovery.Machine, now time.Duration) { m.Failed(now, e.id, err) })
	}
}

// reportAnswer reports an answer to the machine: the ACK of a push, or the REPLY to a ping
// with its ping info.
func (e *exchange) reportAnswer(v *portals.Event) {
	if e.push {
		e.reportResult(func(m *discovery.Machine, now time.Duration) { m.PushAcked(now, e.id) })
		return
	}
	r := discovery.Reply{To: v.Target.NID, From: v.Source.NID}
	r.Content = e.node.readInfo(v.Bytes[:min(v.Length, len(v.Bytes))], v.Length >= e.size, r.From)
	if r.Content.Err == nil && !e.node.admitInfo(v.Sender, &r.Content.Info) {
		r.Content.Err = discovery.ErrFull
	}
	e.reportResult(func(m *discovery.Machine, now time.Duration) { m.PingReply(now, e.id, r) })
}

// readInfo decodes ping info that came from another node. cut reports whether b may lack
// the end of the info because the buffer was full. Entries with NIDs of this node are
// removed, because they cannot belong to another node.
func (n *Node) readInfo(b []byte, cut bool, from lnet.NID) discovery.Content {
	c := discovery.Read(b, cut, n.parameters.Load().InterfacesMax)
	if t := n.topology.Load(); t.find(from) == nil {
		c.Info.NIs = slices.DeleteFunc(c.Info.NIs, func(i lnet.PingNI) bool { return t.find(i.NID) != nil })
	}
	return c
}

// reportResult makes the discoverer call f, which reports the result of e to the machine.
// It does nothing if e was canceled.
func (e *exchange) reportResult(f func(m *discovery.Machine, now time.Duration)) {
	d := &e.node.discoverer
	if d.exchanges.end(e) {
		d.post(f)
	}
}
