package uplnd

import (
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/uplnd/protocol"
	"github.com/lnetd/lnetd/lnet"
)

// arrival is a message that a proxy has received. It is in proxyEnd.arrivals until it is complete.
type arrival struct {
	lnd.Rx
	from   *proxyEnd
	handle uint64 // the proxy's
	// payload means that the payload is in the area, at offset.
	payload bool
	offset  uint64

	// The fields below are guarded by from.mu.
	taken     bool // the node has given placement, and the payload has to come
	placement lnd.Placement
	// withdrawing means that the upcall Withdrawn is running. The arrival must not be complete before it returns.
	withdrawing bool
	lost        error // why the payload will not come
}

// arrivals are records of arrivals that are complete.
var arrivals = sync.Pool{New: func() any { return new(arrival) }}

func (a *arrival) recycle() {
	*a = arrival{}
	arrivals.Put(a)
}

// arrived handles a report of an arrival: it passes the message to the node.
func (p *proxyEnd) arrived(e *protocol.Entry) error {
	n := e.Header.PayloadLength
	switch {
	case !p.serves(e.Peer.NID):
		return violation("a message from %s, which is not a peer on net %s", e.Peer.NID, p.ni.config.Net)
	case e.HasPayload && n > 0 && !p.there.Contains(e.Offset, n):
		return violation("a payload of %d bytes at %#x, outside the proxy's half of the area", n, e.Offset)
	}
	a := arrivals.Get().(*arrival)
	*a = arrival{Rx: lnd.Rx{Header: e.Header, From: e.Peer, Driver: a}, from: p, handle: e.Handle, payload: e.HasPayload, offset: e.Offset}
	p.mu.Lock()
	_, twice := p.arrivals[e.Handle]
	most := p.ni.server.config.maxArrivals()
	many := len(p.arrivals) >= most
	if !twice && !many {
		p.arrivals[e.Handle] = a
		p.notePeer(e.Peer)
		p.arm(watchPeriod)
	}
	p.mu.Unlock()
	if twice || many {
		return violation("arrival %#x announced twice (%v) or beside %d others", e.Handle, twice, most)
	}
	if err := p.ni.config.Upper.Arrived(&a.Rx); err != nil {
		p.refuse(e.Handle)
		return nil
	}
	p.mu.Lock()
	if b := p.arrivals[e.Handle]; b == a && a.payload {
		p.put(&protocol.Entry{Op: protocol.Wait, Handle: e.Handle})
	}
	p.mu.Unlock()
	return nil
}

// serves reports whether a NID can be that of a peer of the proxy.
func (p *proxyEnd) serves(nid lnet.NID) bool {
	return nid.Net() == p.ni.config.Net && nid != p.ni.config.NID && !nid.IsAny()
}

// refuse ends an arrival that the node has rejected.
func (p *proxyEnd) refuse(handle uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.arrivals, handle)
	p.put(&protocol.Entry{Op: protocol.Refuse, Handle: handle})
}

// place implements lnd.Interface.Receive.
func (p *proxyEnd) place(a *arrival, place lnd.Placement) {
	p.mu.Lock()
	switch {
	case a.withdrawing:
		a.taken, a.placement = true, place
		p.mu.Unlock()
	case a.lost != nil:
		err := a.lost
		p.mu.Unlock()
		if place.Done != nil {
			place.Done.Received(&a.Rx, err)
		}
	case place.Done == nil:
		delete(p.arrivals, a.handle)
		p.put(&protocol.Entry{Op: protocol.Done, Handle: a.handle})
		p.unlock()
		a.recycle()
	case (a.payload || a.Header.PayloadLength == 0) && !p.released:
		delete(p.arrivals, a.handle)
		p.users++
		p.mu.Unlock()
		p.complete(a, &place, a.offset)
	default:
		a.taken, a.placement = true, place
		p.arm(watchPeriod)
		p.put(&protocol.Entry{Op: protocol.Take, Handle: a.handle, Length: uint32(place.Memory.Length)})
		p.unlock()
	}
}

// complete copies the payload from the area to its place, and completes the arrival, which is not in arrivals
// any more. The caller has added it to users.
func (p *proxyEnd) complete(a *arrival, place *lnd.Placement, offset uint64) {
	n := place.Memory.Length
	err := p.copyPayload(n, func() { place.Memory.CopyFrom(p.bytes(offset, n)) })
	p.order(&protocol.Entry{Op: protocol.Done, Handle: a.handle})
	p.ni.count.received.Add(1)
	p.traffic.received.Add(1)
	p.traffic.receivedBytes.Add(uint64(n))
	if err != nil {
		err = failure("receive", a.From.NID, lnd.StatusLocalError, err)
	}
	place.Done.Received(&a.Rx, err)
	a.recycle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unuse()
}

// payloadCame handles a report that a payload is in the area, or will not come.
func (p *proxyEnd) payloadCame(e *protocol.Entry) error {
	p.mu.Lock()
	a := p.arrivals[e.Handle]
	if a == nil || !a.taken {
		p.mu.Unlock()
		return violation("a payload for arrival %#x, which was not asked for", e.Handle)
	}
	place, n := a.placement, uint32(a.placement.Memory.Length)
	good := e.Status != lnd.StatusOK || e.Length == n && (n == 0 || p.there.Contains(e.Offset, n))
	if good {
		delete(p.arrivals, e.Handle)
	}
	if good && e.Status == lnd.StatusOK {
		p.users++
	}
	p.mu.Unlock()
	switch {
	case !good:
		return violation("a payload of %d bytes at %#x, where %d bytes in the proxy's half were asked for", e.Length, e.Offset, n)
	case e.Status == lnd.StatusOK:
		p.complete(a, &place, e.Offset)
	default:
		p.order(&protocol.Entry{Op: protocol.Done, Handle: e.Handle})
		place.Done.Received(&a.Rx, failure("receive", a.From.NID, e.Status, e.Cause.Err(e.Text)))
	}
	return nil
}

// withdrawn handles a report that the payload of an arrival will not come.
func (p *proxyEnd) withdrawn(e *protocol.Entry) error {
	p.mu.Lock()
	a := p.arrivals[e.Handle]
	if a == nil { // the order Done has crossed the report
		p.mu.Unlock()
		return nil
	}
	if a.payload {
		p.mu.Unlock()
		return violation("arrival %#x is withdrawn, although its payload is in the area", e.Handle)
	}
	delete(p.arrivals, e.Handle)
	a.lose(failure("receive", a.From.NID, lnd.StatusNetworkTimeout, lnd.ErrDisconnected))
	p.put(&protocol.Entry{Op: protocol.Done, Handle: e.Handle})
	p.mu.Unlock()
	p.reportLost(a)
	return nil
}

// lose records that the payload will not come. The caller removes the arrival from arrivals, and calls
// reportLost without from.mu, which is held now.
func (a *arrival) lose(err error) {
	a.lost = err
	a.withdrawing = !a.taken
}

// reportLost tells the node that an arrival is lost.
func (p *proxyEnd) reportLost(a *arrival) {
	if a.withdrawing { // changed by this function alone
		p.ni.config.Upper.Withdrawn(&a.Rx)
		p.mu.Lock()
		a.withdrawing = false
		p.mu.Unlock()
	}
	if a.taken && a.placement.Done != nil {
		a.placement.Done.Received(&a.Rx, a.lost)
	}
}

// endArrivals ends all arrivals after the proxy was detached.
func (p *proxyEnd) endArrivals(err error) {
	p.mu.Lock()
	var list []*arrival
	for _, a := range p.arrivals {
		a.lose(err)
		list = append(list, a)
	}
	clear(p.arrivals)
	p.mu.Unlock()
	for _, a := range list {
		p.reportLost(a)
	}
}
